// Package backendtest is what every keyed state backend must do, as tests: Run takes a factory and tries its backends in
// simulated worlds, and once in the real one. Worker and Loop are the surroundings of a backend for further tests.
//
// A test runs subtasks of one operator over a strict bucket in memory: it opens them, changes their state, takes
// checkpoints, and opens them again with other key-group ranges. A model, plain Go maps, knows what must be there.
package backendtest
