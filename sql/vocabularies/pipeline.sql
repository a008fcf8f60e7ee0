-- Vocabulary `pipeline`: the circuit breaker lifecycle of seed 001. Its workstreams and steps follow.
select tasker.define_vocabulary($vocabulary$
{
 "vocabulary": "pipeline",
 "description": "Workstreams, steps and circuit breakers (seed 001).",
 "circuit_breaker_lifecycle": "pipeline.circuit_breaker",
 "lifecycles": [
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
