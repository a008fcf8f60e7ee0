-- The rules change hardly ever: what the planner knows of them is told here, once, and not by autovacuum when everybody is at work.
analyze tasker.lifecycles, tasker.lifecycle_states, tasker.lifecycle_events, tasker.lifecycle_transitions;
