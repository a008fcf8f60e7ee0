-- Vocabulary `orchestration`: the workstream, task and worker lifecycles of seed 000. Data only.
select tasker.define_vocabulary($vocabulary$
{
 "vocabulary": "orchestration",
 "description": "Tasks, workstreams and workers (seed 000).",
 "task_lifecycle": "orchestration.workstream",
 "step_lifecycle": "orchestration.task",
 "worker_lifecycle": "orchestration.worker",
 "lifecycles": [
  {
   "lifecycle": "orchestration.workstream", "kind": "task", "initial_state": "planned",
   "description": "A workstream, derived from its tasks (seed 000, Workstream Lifecycle State Machine).",
   "states": [
    {"state": "planned", "phase": "pending", "description": "Workstream defined, tasks not created", "flags": []},
    {"state": "ready", "phase": "starting", "description": "All tasks created, ready to execute", "flags": ["is_waiting"]},
    {"state": "executing", "phase": "running", "description": "At least one task running", "flags": ["is_active"]},
    {"state": "validating", "phase": "validating", "description": "All tasks completed, final validation", "flags": ["is_active"]},
    {"state": "completed", "phase": "succeeded", "description": "Workstream successful, merged", "flags": ["is_terminal", "satisfies_dependencies"]},
    {"state": "failed", "phase": "failed", "description": "Workstream failed, preserved", "flags": ["is_terminal", "is_error"]},
    {"state": "cancelled", "phase": "cancelled", "description": "Workstream cancelled by user", "flags": ["is_terminal"]}
   ],
   "events": [
    {"event": "all_tasks_created", "category": "lifecycle", "description": "Task count matches workstream specification"},
    {"event": "first_task_started", "category": "processing", "description": "At least one task transitioned to running"},
    {"event": "all_tasks_completed", "category": "processing", "description": "All tasks in completed state, no failures"},
    {"event": "critical_task_failed", "category": "processing", "description": "Critical task reached failed state"},
    {"event": "validation_passed", "category": "processing", "description": "Final validation successful"},
    {"event": "validation_failed", "category": "processing", "description": "Final validation failed"},
    {"event": "user_cancelled", "category": "control", "description": "Workstream cancelled by user"}
   ],
   "transitions": [
    {"from": "planned", "event": "all_tasks_created", "to": "ready", "fired_by": "automatic", "operation": "advance", "description": "Every task was created with it"},
    {"from": "ready", "event": "first_task_started", "to": "executing", "fired_by": "operation", "operation": "first_start", "description": "A worker took its first task"},
    {"from": "ready", "event": "all_tasks_completed", "to": "validating", "fired_by": "automatic", "operation": "advance", "guard": "all_steps_satisfied", "is_addition": true, "description": "Nothing of it had to run: it is empty, or every task was left out"},
    {"from": "executing", "event": "critical_task_failed", "to": "failed", "fired_by": "automatic", "operation": "advance", "guard": "critical_step_failed", "severity": "critical", "description": "A critical task failed"},
    {"from": "executing", "event": "all_tasks_completed", "to": "validating", "fired_by": "automatic", "operation": "advance", "guard": "all_steps_satisfied", "description": "Every task is completed"},
    {"from": "validating", "event": "validation_passed", "to": "completed", "fired_by": "automatic", "operation": "advance", "guard": "validated", "description": "Final validation: every task is completed and validated, and who was to judge the whole has passed it"},
    {"from": "validating", "event": "validation_failed", "to": "failed", "fired_by": "command", "operation": "fail_validation", "severity": "error", "description": "Final validation failed"},
    {"from": "planned", "event": "user_cancelled", "to": "cancelled", "fired_by": "command", "operation": "cancel_task", "severity": "warning", "description": "Cancelled by user"},
    {"from": "ready", "event": "user_cancelled", "to": "cancelled", "fired_by": "command", "operation": "cancel_task", "severity": "warning", "description": "Cancelled by user"},
    {"from": "executing", "event": "user_cancelled", "to": "cancelled", "fired_by": "command", "operation": "cancel_task", "severity": "warning", "description": "Cancelled by user"}
   ]
  },
  {
   "lifecycle": "orchestration.task", "kind": "step", "initial_state": "pending",
   "description": "A task (seed 000, Task Lifecycle State Machine).",
   "states": [
    {"state": "pending", "phase": "pending", "description": "Task created, not yet scheduled", "flags": []},
    {"state": "queued", "phase": "queued", "description": "Task scheduled, waiting for worker", "flags": ["is_ready_for_claiming", "is_in_processing_pipeline"]},
    {"state": "running", "phase": "running", "description": "Task executing on worker", "flags": ["is_active", "is_in_processing_pipeline"]},
    {"state": "validating", "phase": "validating", "description": "Task completed, validation in progress", "flags": ["is_active", "is_in_processing_pipeline"]},
    {"state": "completed", "phase": "succeeded", "description": "Task and validation successful", "flags": ["is_terminal", "satisfies_dependencies"]},
    {"state": "failed", "phase": "failed", "description": "Task or validation failed", "flags": ["is_terminal", "is_error"]},
    {"state": "retrying", "phase": "waiting_retry", "description": "Task failed, retry scheduled", "flags": ["is_waiting"]},
    {"state": "cancelled", "phase": "cancelled", "description": "Task cancelled by user", "flags": ["is_terminal"]}
   ],
   "events": [
    {"event": "scheduler_assigned", "category": "processing", "description": "Task dependencies satisfied"},
    {"event": "worker_started", "category": "processing", "description": "Worker with required capabilities available"},
    {"event": "execution_completed", "category": "processing", "description": "Worker reports exit_code == 0"},
    {"event": "execution_failed", "category": "processing", "description": "Worker reports failure"},
    {"event": "user_cancelled", "category": "control", "description": "Task cancelled by user"},
    {"event": "retry_delay_elapsed", "category": "system", "description": "Backoff is over"},
    {"event": "validation_passed", "category": "processing", "description": "All post_execution rules pass"},
    {"event": "validation_failed", "category": "processing", "description": "Any post_execution rule fails"}
   ],
   "transitions": [
    {"from": "pending", "event": "scheduler_assigned", "to": "queued", "fired_by": "operation", "operation": "enqueue", "guard": "dependencies_satisfied", "description": "Task dependencies satisfied"},
    {"from": "queued", "event": "worker_started", "to": "running", "fired_by": "operation", "operation": "claim", "guard": "not_in_progress", "description": "A worker takes it"},
    {"from": "running", "event": "execution_completed", "to": "validating", "fired_by": "operation", "operation": "report_success", "guard": "work_succeeded", "description": "The worker reports success"},
    {"from": "running", "event": "execution_failed", "to": "retrying", "fired_by": "operation", "operation": "report_failure", "guard": "retries_left", "severity": "warning", "description": "retry_count < max_retries"},
    {"from": "running", "event": "execution_failed", "to": "failed", "fired_by": "operation", "operation": "report_failure", "guard": "retries_exhausted", "severity": "error", "description": "retry_count >= max_retries"},
    {"from": "running", "event": "user_cancelled", "to": "cancelled", "fired_by": "command", "operation": "cancel_step", "severity": "warning", "description": "Cancelled by user"},
    {"from": "pending", "event": "user_cancelled", "to": "cancelled", "fired_by": "command", "operation": "cancel_step", "is_addition": true, "severity": "warning", "description": "Cancel remaining tasks (actions of the workstream)"},
    {"from": "queued", "event": "user_cancelled", "to": "cancelled", "fired_by": "command", "operation": "cancel_step", "is_addition": true, "severity": "warning", "description": "Cancel remaining tasks (actions of the workstream)"},
    {"from": "retrying", "event": "user_cancelled", "to": "cancelled", "fired_by": "command", "operation": "cancel_step", "is_addition": true, "severity": "warning", "description": "Cancel remaining tasks (actions of the workstream)"},
    {"from": "validating", "event": "user_cancelled", "to": "cancelled", "fired_by": "command", "operation": "cancel_step", "is_addition": true, "severity": "warning", "description": "Cancel remaining tasks (actions of the workstream)"},
    {"from": "retrying", "event": "retry_delay_elapsed", "to": "queued", "fired_by": "timer", "operation": "retry_due", "description": "Backoff is over"},
    {"from": "validating", "event": "validation_passed", "to": "completed", "fired_by": "operation", "operation": "validation_pass", "description": "All post_execution rules pass, or there is none"},
    {"from": "validating", "event": "validation_failed", "to": "failed", "fired_by": "operation", "operation": "validation_fail", "severity": "error", "description": "Any post_execution rule fails"}
   ]
  },
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
