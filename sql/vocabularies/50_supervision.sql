-- Vocabulary `supervision`: the job and worker lifecycles of seed 003; steps of a job follow those of seed 004. Data only.
select tasker.define_vocabulary($vocabulary$
{
 "vocabulary": "supervision",
 "description": "Jobs and supervised workers (seed 003).",
 "task_lifecycle": "supervision.job",
 "step_lifecycle": "tasker.workflow_step",
 "worker_lifecycle": "supervision.worker",
 "lifecycles": [
  {
   "lifecycle": "supervision.job", "kind": "task", "initial_state": "SUBMITTED",
   "description": "A job (seed 003, Job State Machine).",
   "states": [
    {"state": "SUBMITTED", "phase": "pending", "description": "Job received but not yet validated", "flags": ["can_be_processed"]},
    {"state": "PENDING", "phase": "waiting", "description": "Job validated, waiting for resources", "flags": ["is_waiting", "can_be_processed"]},
    {"state": "RUNNING", "phase": "running", "description": "Job executing with allocated resources", "flags": ["is_active"]},
    {"state": "COMPLETED", "phase": "succeeded", "description": "Job finished successfully", "flags": ["is_terminal", "satisfies_dependencies"]},
    {"state": "FAILED", "phase": "failed", "description": "Job failed due to error", "flags": ["is_terminal", "is_error"]},
    {"state": "CANCELED", "phase": "cancelled", "description": "Job canceled by user/system", "flags": ["is_terminal"]}
   ],
   "events": [
    {"event": "validate", "category": "lifecycle", "description": "Schema valid"},
    {"event": "allocate_resources", "category": "processing", "description": "Resources available"},
    {"event": "cancel", "category": "control", "description": "User/system request"},
    {"event": "success", "category": "processing", "description": "Task finished"},
    {"event": "error", "category": "processing", "description": "Execution error"}
   ],
   "transitions": [
    {"from": "SUBMITTED", "event": "validate", "to": "PENDING", "fired_by": "automatic", "operation": "advance", "description": "The definition was validated when it was created"},
    {"from": "PENDING", "event": "allocate_resources", "to": "RUNNING", "fired_by": "automatic", "operation": "advance", "guard": "workers_allocated", "description": "Allocate workers"},
    {"from": "PENDING", "event": "cancel", "to": "CANCELED", "fired_by": "command", "operation": "cancel_task", "severity": "warning", "description": "User/system request"},
    {"from": "RUNNING", "event": "success", "to": "COMPLETED", "fired_by": "automatic", "operation": "advance", "guard": "all_steps_satisfied", "description": "Task finished"},
    {"from": "RUNNING", "event": "error", "to": "FAILED", "fired_by": "automatic", "operation": "advance", "guard": "blocked_by_failures", "severity": "error", "description": "Execution error"},
    {"from": "RUNNING", "event": "cancel", "to": "CANCELED", "fired_by": "command", "operation": "cancel_task", "severity": "warning", "description": "User/system request"}
   ]
  },
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
    {"from": "IDLE", "event": "start_task", "to": "RUNNING", "fired_by": "operation", "operation": "worker_allocate", "description": "Task assigned"},
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
