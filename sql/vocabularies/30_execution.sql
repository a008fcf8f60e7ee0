-- Vocabulary `execution`: the task lifecycle of seed 002 for steps, under the workstreams of seed 001. Data only.
select tasker.define_vocabulary($vocabulary$
{
 "vocabulary": "execution",
 "description": "Task execution with timeouts, acceptance tests and circuits (seed 002).",
 "task_lifecycle": "pipeline.workstream",
 "step_lifecycle": "execution.task",
 "worker_lifecycle": "orchestration.worker",
 "circuit_breaker_lifecycle": "pipeline.circuit_breaker",
 "lifecycles": [
  {
   "lifecycle": "execution.task", "kind": "step", "initial_state": "PENDING",
   "description": "A workstream task from creation to completion (seed 002, Task State Machine).",
   "states": [
    {"state": "PENDING", "phase": "pending", "description": "Waiting for dependencies", "flags": ["is_ready_for_claiming"]},
    {"state": "IN_PROGRESS", "phase": "running", "description": "Tool executing", "flags": ["is_active", "is_in_processing_pipeline"]},
    {"state": "VALIDATING", "phase": "validating", "description": "Running acceptance tests", "flags": ["is_active", "is_in_processing_pipeline"]},
    {"state": "COMPLETED", "phase": "succeeded", "description": "Final success state", "flags": ["is_terminal", "satisfies_dependencies"]},
    {"state": "FAILED", "phase": "failed", "description": "Error details captured, retry decision made", "flags": ["is_error"]},
    {"state": "RETRYING", "phase": "waiting_retry", "description": "Exponential backoff", "flags": ["is_waiting"]},
    {"state": "CIRCUIT_OPEN", "phase": "circuit_open", "description": "Too many failures: fast-fail mode", "flags": ["is_error", "is_waiting"]},
    {"state": "HALF_OPEN", "phase": "trial", "description": "Circuit cooldown expired, one test retry allowed", "flags": ["is_ready_for_claiming"]},
    {"state": "TIMEOUT", "phase": "failed", "description": "Execution exceeded its timeout", "flags": ["is_error"]},
    {"state": "SKIPPED", "phase": "skipped", "description": "No execution attempted", "flags": ["is_terminal"]},
    {"state": "CANCELLED", "phase": "cancelled", "description": "Cancelled by user", "flags": ["is_terminal"]}
   ],
   "events": [
    {"event": "executor_starts", "category": "processing", "description": "Executor Starts"},
    {"event": "dependency_failed", "category": "processing", "description": "Dependency Failed"},
    {"event": "user_cancels", "category": "control", "description": "User Cancels"},
    {"event": "tool_execution_complete", "category": "processing", "description": "Tool Execution Complete"},
    {"event": "tool_execution_error", "category": "processing", "description": "Tool Execution Error"},
    {"event": "execution_timeout", "category": "system", "description": "Execution Timeout"},
    {"event": "user_interrupt", "category": "control", "description": "User Interrupt"},
    {"event": "tests_pass", "category": "processing", "description": "Tests Pass"},
    {"event": "tests_fail", "category": "processing", "description": "Tests Fail"},
    {"event": "max_retries_reached", "category": "processing", "description": "Max Retries Reached"},
    {"event": "retry_available", "category": "processing", "description": "Retry Available"},
    {"event": "backoff_complete", "category": "system", "description": "Backoff Complete"},
    {"event": "circuit_opens", "category": "system", "description": "Circuit Opens"},
    {"event": "cooldown_expires", "category": "system", "description": "Cooldown Expires"},
    {"event": "test_retry", "category": "processing", "description": "Test Retry"},
    {"event": "test_fails", "category": "processing", "description": "Test Fails"},
    {"event": "no_retries_left", "category": "processing", "description": "No Retries Left"},
    {"event": "manual_reset", "category": "control", "description": "Manual intervention/reset"},
    {"event": "workstream_cancelled", "category": "control", "description": "Workstream cancelled"},
    {"event": "step_skipped", "category": "control", "description": "Step marked optional and skipped"}
   ],
   "transitions": [
    {"from": "PENDING", "event": "executor_starts", "to": "IN_PROGRESS", "fired_by": "operation", "operation": "claim", "guard": "startable", "description": "All dependencies complete"},
    {"from": "PENDING", "event": "dependency_failed", "to": "SKIPPED", "fired_by": "operation", "operation": "skip_dependent", "severity": "warning", "description": "Any dependency fails"},
    {"from": "PENDING", "event": "user_cancels", "to": "CANCELLED", "fired_by": "command", "operation": "cancel_step", "severity": "warning", "description": "User cancels"},
    {"from": "IN_PROGRESS", "event": "tool_execution_complete", "to": "VALIDATING", "fired_by": "operation", "operation": "report_success", "guard": "work_succeeded", "description": "Tool execution completes"},
    {"from": "IN_PROGRESS", "event": "tool_execution_error", "to": "FAILED", "fired_by": "operation", "operation": "report_failure", "guard": "work_failed", "severity": "warning", "description": "Tool returns error"},
    {"from": "IN_PROGRESS", "event": "execution_timeout", "to": "TIMEOUT", "fired_by": "timer", "operation": "report_timeout", "severity": "warning", "reports_result": true, "description": "Execution exceeds timeout"},
    {"from": "IN_PROGRESS", "event": "user_interrupt", "to": "CANCELLED", "fired_by": "command", "operation": "cancel_step", "severity": "warning", "description": "User interrupts"},
    {"from": "VALIDATING", "event": "tests_pass", "to": "COMPLETED", "fired_by": "operation", "operation": "validation_pass", "description": "All tests pass, or there is none"},
    {"from": "VALIDATING", "event": "tests_fail", "to": "FAILED", "fired_by": "operation", "operation": "validation_fail", "severity": "error", "description": "Any test fails"},
    {"from": "FAILED", "event": "retry_available", "to": "RETRYING", "fired_by": "operation", "operation": "settle_failure", "guard": "retries_left", "severity": "warning", "description": "Retries available"},
    {"from": "FAILED", "event": "max_retries_reached", "to": "CIRCUIT_OPEN", "fired_by": "operation", "operation": "settle_failure", "guard": "retries_exhausted", "severity": "error", "description": "Max retries exceeded, or the error is permanent"},
    {"from": "RETRYING", "event": "backoff_complete", "to": "IN_PROGRESS", "fired_by": "operation", "operation": "claim", "guard": "not_in_progress", "description": "Backoff complete"},
    {"from": "RETRYING", "event": "circuit_opens", "to": "CIRCUIT_OPEN", "fired_by": "operation", "operation": "hold_back", "severity": "error", "description": "Circuit opens during wait"},
    {"from": "CIRCUIT_OPEN", "event": "cooldown_expires", "to": "HALF_OPEN", "fired_by": "timer", "operation": "retry_due", "description": "Cooldown expires"},
    {"from": "HALF_OPEN", "event": "test_retry", "to": "IN_PROGRESS", "fired_by": "operation", "operation": "claim", "guard": "not_in_progress", "description": "Single test retry"},
    {"from": "HALF_OPEN", "event": "test_fails", "to": "CIRCUIT_OPEN", "fired_by": "operation", "operation": "hold_back", "severity": "error", "description": "Test fails before it starts: the circuit of the tool is open"},
    {"from": "TIMEOUT", "event": "retry_available", "to": "RETRYING", "fired_by": "operation", "operation": "settle_failure", "guard": "retries_left", "severity": "warning", "description": "Retries available"},
    {"from": "TIMEOUT", "event": "no_retries_left", "to": "FAILED", "fired_by": "operation", "operation": "settle_failure", "guard": "retries_exhausted", "severity": "error", "description": "No retries left"},
    {"from": "CIRCUIT_OPEN", "event": "manual_reset", "to": "PENDING", "fired_by": "command", "operation": "retry_step", "guard": "can_be_retried", "is_addition": true, "severity": "warning", "description": "Manual intervention/reset (state description)"},
    {"from": "CIRCUIT_OPEN", "event": "workstream_cancelled", "to": "CANCELLED", "fired_by": "command", "operation": "cancel_step", "is_addition": true, "severity": "warning", "description": "Workstream cancelled (state description)"},
    {"from": "VALIDATING", "event": "workstream_cancelled", "to": "CANCELLED", "fired_by": "command", "operation": "cancel_step", "is_addition": true, "severity": "warning", "description": "Parent workstream cancelled (entry conditions of CANCELLED)"},
    {"from": "RETRYING", "event": "workstream_cancelled", "to": "CANCELLED", "fired_by": "command", "operation": "cancel_step", "is_addition": true, "severity": "warning", "description": "Parent workstream cancelled (entry conditions of CANCELLED)"},
    {"from": "HALF_OPEN", "event": "workstream_cancelled", "to": "CANCELLED", "fired_by": "command", "operation": "cancel_step", "is_addition": true, "severity": "warning", "description": "Parent workstream cancelled (entry conditions of CANCELLED)"},
    {"from": "PENDING", "event": "step_skipped", "to": "SKIPPED", "fired_by": "command", "operation": "skip_step", "is_addition": true, "severity": "warning", "description": "Step marked optional and skipped (entry conditions of SKIPPED)"}
   ]
  }
 ]
}
$vocabulary$);
