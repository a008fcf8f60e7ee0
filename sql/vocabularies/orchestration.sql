-- Vocabulary `orchestration`: the worker lifecycle of seed 000. Its workstreams and tasks follow.
select tasker.define_vocabulary($vocabulary$
{
 "vocabulary": "orchestration",
 "description": "Tasks, workstreams and workers (seed 000).",
 "worker_lifecycle": "orchestration.worker",
 "lifecycles": [
  {
   "lifecycle": "orchestration.worker", "kind": "worker", "initial_state": "initializing",
   "description": "A worker and its health checks (seed 000, Worker State Machine).",
   "states": [
    {"state": "initializing", "phase": "starting", "description": "Worker starting up", "flags": []},
    {"state": "idle", "phase": "idle", "description": "Worker ready, no assigned tasks", "flags": ["is_ready_for_claiming"]},
    {"state": "busy", "phase": "busy", "description": "Worker executing task", "flags": ["is_active"]},
    {"state": "unresponsive", "phase": "unresponsive", "description": "Worker not responding to health checks", "flags": ["is_error"]},
    {"state": "shutdown", "phase": "ended", "description": "Worker gracefully shutting down", "flags": ["is_terminal"]}
   ],
   "events": [
    {"event": "registration_complete", "category": "lifecycle", "description": "Worker capabilities registered with orchestrator"},
    {"event": "task_assigned", "category": "processing", "description": "Task assigned to worker"},
    {"event": "task_completed", "category": "processing", "description": "Task finished (success or failure)"},
    {"event": "health_check_timeout", "category": "system", "description": "Worker missed N consecutive health checks"},
    {"event": "health_check_recovered", "category": "system", "description": "Worker responds to health check"},
    {"event": "max_timeout_exceeded", "category": "system", "description": "Worker stayed unresponsive"},
    {"event": "shutdown_requested", "category": "control", "description": "Worker is to shut down"}
   ],
   "transitions": [
    {"from": "initializing", "event": "registration_complete", "to": "idle", "fired_by": "operation", "operation": "worker_ready", "description": "Added to the pool"},
    {"from": "idle", "event": "task_assigned", "to": "busy", "fired_by": "operation", "operation": "worker_assign", "description": "Takes its first step"},
    {"from": "busy", "event": "task_completed", "to": "idle", "fired_by": "operation", "operation": "worker_finish", "guard": "holds_nothing", "description": "Holds nothing any more"},
    {"from": "busy", "event": "health_check_timeout", "to": "unresponsive", "fired_by": "timer", "operation": "worker_miss", "severity": "error", "description": "Its work goes to others"},
    {"from": "unresponsive", "event": "health_check_recovered", "to": "idle", "fired_by": "operation", "operation": "worker_recover", "description": "Heard of again"},
    {"from": "unresponsive", "event": "max_timeout_exceeded", "to": "shutdown", "fired_by": "timer", "operation": "worker_expire", "severity": "error", "description": "Silent for too long"},
    {"from": "idle", "event": "shutdown_requested", "to": "shutdown", "fired_by": "command", "operation": "worker_shutdown", "description": "Nothing to finish"},
    {"from": "busy", "event": "shutdown_requested", "to": "shutdown", "fired_by": "command", "operation": "worker_shutdown", "guard": "holds_nothing", "description": "After it has finished what it holds"}
   ]
  }
 ]
}
$vocabulary$);
