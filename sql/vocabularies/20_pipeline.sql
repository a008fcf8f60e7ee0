-- Vocabulary `pipeline`: the workstream, step and circuit breaker lifecycles of seed 001. Data only.
select tasker.define_vocabulary($vocabulary$
{
 "vocabulary": "pipeline",
 "description": "Workstreams, steps and circuit breakers (seed 001).",
 "task_lifecycle": "pipeline.workstream",
 "step_lifecycle": "pipeline.step",
 "circuit_breaker_lifecycle": "pipeline.circuit_breaker",
 "lifecycles": [
  {
   "lifecycle": "pipeline.workstream", "kind": "task", "initial_state": "S_PENDING",
   "description": "A workstream (seed 001, Workstream State Machine).",
   "states": [
    {"state": "S_PENDING", "phase": "pending", "description": "Workstream created, not yet started", "flags": ["can_be_processed"]},
    {"state": "S_RUNNING", "phase": "running", "description": "Workstream is actively executing steps", "flags": ["is_active"]},
    {"state": "S_SUCCESS", "phase": "succeeded", "description": "All steps completed successfully", "flags": ["is_terminal", "satisfies_dependencies"]},
    {"state": "S_FAILED", "phase": "failed", "description": "One or more steps failed", "flags": ["is_error"]},
    {"state": "S_RETRYING", "phase": "waiting_retry", "description": "Waiting before retry attempt", "flags": ["is_waiting"]},
    {"state": "S_ABANDONED", "phase": "cancelled", "description": "Manually stopped or max retries exceeded", "flags": ["is_terminal"]}
   ],
   "events": [
    {"event": "start_execution", "category": "lifecycle", "description": "Orchestrator starts execution"},
    {"event": "all_steps_succeed", "category": "processing", "description": "All steps complete"},
    {"event": "step_fails", "category": "processing", "description": "Any step enters S_FAILED"},
    {"event": "abandon", "category": "control", "description": "User cancels, or max retries exceeded"},
    {"event": "retry_eligible", "category": "processing", "description": "Retry logic activates"},
    {"event": "retry_attempt", "category": "system", "description": "Retry delay expires"}
   ],
   "transitions": [
    {"from": "S_PENDING", "event": "start_execution", "to": "S_RUNNING", "fired_by": "automatic", "operation": "advance", "description": "Orchestrator starts execution"},
    {"from": "S_RUNNING", "event": "all_steps_succeed", "to": "S_SUCCESS", "fired_by": "automatic", "operation": "advance", "guard": "all_steps_satisfied", "description": "All steps in S_SUCCESS"},
    {"from": "S_RUNNING", "event": "step_fails", "to": "S_FAILED", "fired_by": "automatic", "operation": "advance", "guard": "any_step_failed", "severity": "error", "description": "Any step enters S_FAILED"},
    {"from": "S_RUNNING", "event": "abandon", "to": "S_ABANDONED", "fired_by": "command", "operation": "cancel_task", "severity": "warning", "description": "User cancels: manual intervention"},
    {"from": "S_FAILED", "event": "retry_eligible", "to": "S_RETRYING", "fired_by": "automatic", "operation": "advance", "guard": "task_retries_left", "severity": "warning", "description": "retry_count < max_retries"},
    {"from": "S_FAILED", "event": "abandon", "to": "S_ABANDONED", "fired_by": "automatic", "operation": "advance", "guard": "task_retries_exhausted", "severity": "error", "description": "retry_count >= max_retries"},
    {"from": "S_RETRYING", "event": "retry_attempt", "to": "S_RUNNING", "fired_by": "timer", "operation": "task_retry_due", "description": "After backoff period"}
   ]
  },
  {
   "lifecycle": "pipeline.step", "kind": "step", "initial_state": "S_PENDING",
   "description": "A step (seed 001, Step State Machine).",
   "states": [
    {"state": "S_PENDING", "phase": "pending", "description": "Step created, waiting for dependencies", "flags": ["is_ready_for_claiming"]},
    {"state": "S_RUNNING", "phase": "running", "description": "Step is actively executing", "flags": ["is_active", "is_in_processing_pipeline"]},
    {"state": "S_SUCCESS", "phase": "succeeded", "description": "Step completed successfully", "flags": ["is_terminal", "satisfies_dependencies"]},
    {"state": "S_FAILED", "phase": "failed", "description": "Step failed execution", "flags": ["is_error"]},
    {"state": "S_RETRYING", "phase": "waiting_retry", "description": "Waiting before retry", "flags": ["is_waiting"]}
   ],
   "events": [
    {"event": "dependencies_met", "category": "processing", "description": "All depends_on steps in S_SUCCESS"},
    {"event": "success", "category": "processing", "description": "Exit code in expected_exit_codes"},
    {"event": "failure", "category": "processing", "description": "Exit code not expected"},
    {"event": "retry_eligible", "category": "processing", "description": "retry_count < max_retries"},
    {"event": "retry_attempt", "category": "system", "description": "After exponential backoff"},
    {"event": "manual_reset", "category": "control", "description": "Recovery 2: reset by hand"},
    {"event": "skip_step", "category": "control", "description": "Recovery 2: skip failed step"}
   ],
   "transitions": [
    {"from": "S_PENDING", "event": "dependencies_met", "to": "S_RUNNING", "fired_by": "operation", "operation": "claim", "guard": "startable", "description": "All depends_on steps in S_SUCCESS"},
    {"from": "S_RUNNING", "event": "success", "to": "S_SUCCESS", "fired_by": "operation", "operation": "report_success", "guard": "work_succeeded", "description": "Exit code in expected_exit_codes"},
    {"from": "S_RUNNING", "event": "failure", "to": "S_FAILED", "fired_by": "operation", "operation": "report_failure", "guard": "work_failed", "severity": "warning", "description": "Exit code not expected"},
    {"from": "S_FAILED", "event": "retry_eligible", "to": "S_RETRYING", "fired_by": "operation", "operation": "settle_failure", "guard": "retries_left", "severity": "warning", "description": "retry_count < max_retries"},
    {"from": "S_RETRYING", "event": "retry_attempt", "to": "S_RUNNING", "fired_by": "operation", "operation": "claim", "guard": "not_in_progress", "description": "After exponential backoff"},
    {"from": "S_FAILED", "event": "manual_reset", "to": "S_PENDING", "fired_by": "command", "operation": "retry_step", "guard": "can_be_retried", "is_addition": true, "severity": "warning", "description": "Recovery 2: reset by hand"},
    {"from": "S_FAILED", "event": "skip_step", "to": "S_SUCCESS", "fired_by": "command", "operation": "skip_step", "is_addition": true, "severity": "warning", "description": "Recovery 2: skip failed step"}
   ]
  },
  {
   "lifecycle": "pipeline.circuit_breaker", "kind": "circuit_breaker", "initial_state": "CLOSED",
   "description": "A circuit breaker per tool (seed 001, Circuit Breaker State Machine).",
   "states": [
    {"state": "CLOSED", "phase": "closed", "description": "Normal operation", "flags": []},
    {"state": "OPEN", "phase": "open", "description": "Protection from cascading failures", "flags": []},
    {"state": "HALF_OPEN", "phase": "half_open", "description": "Testing if service recovered", "flags": []}
   ],
   "events": [
    {"event": "failure_threshold_exceeded", "category": "processing", "description": "Too many consecutive failures"},
    {"event": "cooldown_expires", "category": "system", "description": "The cooldown is over"},
    {"event": "success", "category": "processing", "description": "The test request succeeded"},
    {"event": "failure", "category": "processing", "description": "The test request failed"},
    {"event": "reset_circuit", "category": "control", "description": "An operator resets the breaker"}
   ],
   "transitions": [
    {"from": "CLOSED", "event": "failure_threshold_exceeded", "to": "OPEN", "fired_by": "operation", "operation": "breaker_trip", "guard": "failure_threshold_exceeded", "severity": "error", "description": "Too many failures in a row"},
    {"from": "OPEN", "event": "cooldown_expires", "to": "HALF_OPEN", "fired_by": "timer", "operation": "breaker_cool", "guard": "cooldown_over", "description": "One test request is allowed"},
    {"from": "HALF_OPEN", "event": "success", "to": "CLOSED", "fired_by": "operation", "operation": "breaker_close", "guard": "success_threshold_reached", "description": "The service recovered"},
    {"from": "HALF_OPEN", "event": "failure", "to": "OPEN", "fired_by": "operation", "operation": "breaker_reopen", "severity": "error", "description": "The service did not recover"},
    {"from": "OPEN", "event": "reset_circuit", "to": "CLOSED", "fired_by": "command", "operation": "breaker_reset", "is_addition": true, "severity": "warning", "description": "Recovery 3: manual reset"},
    {"from": "HALF_OPEN", "event": "reset_circuit", "to": "CLOSED", "fired_by": "command", "operation": "breaker_reset", "is_addition": true, "severity": "warning", "description": "Recovery 3: manual reset"}
   ]
  }
 ]
}
$vocabulary$);
