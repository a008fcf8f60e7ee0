-- Vocabulary `supervision`: the worker lifecycle of seed 003. Its jobs follow.
select tasker.define_vocabulary($vocabulary$
{
 "vocabulary": "supervision",
 "description": "Jobs and supervised workers (seed 003).",
 "worker_lifecycle": "supervision.worker",
 "lifecycles": [
  {
   "lifecycle": "supervision.worker", "kind": "worker", "initial_state": "IDLE",
   "description": "A supervised worker (seed 003, Worker State Machine).",
   "states": [
    {"state": "IDLE", "phase": "idle", "description": "Worker created but not yet assigned tasks", "flags": ["is_ready_for_claiming"]},
    {"state": "RUNNING", "phase": "busy", "description": "Worker actively executing tasks", "flags": ["is_active"]},
    {"state": "PAUSED", "phase": "paused", "description": "Worker temporarily suspended by supervisor", "flags": ["is_waiting"]},
    {"state": "COMPLETED", "phase": "succeeded", "description": "Worker finished all tasks successfully", "flags": ["is_terminal"]},
    {"state": "FAILED", "phase": "failed", "description": "Worker encountered unrecoverable error", "flags": ["is_terminal", "is_error"]},
    {"state": "TERMINATED", "phase": "cancelled", "description": "Worker forcefully stopped by supervisor", "flags": ["is_terminal"]}
   ],
   "events": [
    {"event": "start_task", "category": "processing", "description": "Task assigned"},
    {"event": "pause", "category": "control", "description": "Supervisor request"},
    {"event": "resume", "category": "control", "description": "Supervisor request"},
    {"event": "complete_tasks", "category": "processing", "description": "All tasks done"},
    {"event": "error_unrecoverable", "category": "processing", "description": "Critical error"},
    {"event": "terminate", "category": "control", "description": "Supervisor command"}
   ],
   "transitions": [
    {"from": "IDLE", "event": "start_task", "to": "RUNNING", "fired_by": "operation", "operation": "worker_assign", "description": "Task assigned"},
    {"from": "RUNNING", "event": "pause", "to": "PAUSED", "fired_by": "command", "operation": "worker_pause", "description": "Supervisor request"},
    {"from": "PAUSED", "event": "resume", "to": "RUNNING", "fired_by": "command", "operation": "worker_resume", "description": "Supervisor request"},
    {"from": "RUNNING", "event": "complete_tasks", "to": "COMPLETED", "fired_by": "command", "operation": "worker_shutdown", "guard": "holds_nothing", "description": "All tasks done"},
    {"from": "RUNNING", "event": "error_unrecoverable", "to": "FAILED", "fired_by": "timer", "operation": "worker_miss", "severity": "error", "description": "Critical error, or never heard of again"},
    {"from": "IDLE", "event": "terminate", "to": "TERMINATED", "fired_by": "command", "operation": "worker_terminate", "severity": "warning", "description": "Supervisor command, any state (force stop)"},
    {"from": "RUNNING", "event": "terminate", "to": "TERMINATED", "fired_by": "command", "operation": "worker_terminate", "severity": "warning", "description": "Supervisor command, any state (force stop)"},
    {"from": "PAUSED", "event": "terminate", "to": "TERMINATED", "fired_by": "command", "operation": "worker_terminate", "severity": "warning", "description": "Supervisor command, any state (force stop)"},
    {"from": "COMPLETED", "event": "terminate", "to": "TERMINATED", "fired_by": "command", "operation": "worker_terminate", "severity": "warning", "description": "Supervisor command, any state (force stop)"},
    {"from": "FAILED", "event": "terminate", "to": "TERMINATED", "fired_by": "command", "operation": "worker_terminate", "severity": "warning", "description": "Supervisor command, any state (force stop)"}
   ]
  }
 ]
}
$vocabulary$);
