package scenario

// later names the keys that the format has but this version does not carry out. Such a key is refused instead of being
// reported as unknown. The index is the path of the block that holds it, without list indices and names of arms.
func later(block string) []string {
	switch block {
	case "":
		return []string{"extends", "owner", "matrix", "chaos", "compare"}
	case "env":
		return []string{"target", "pin"}
	case "env.workers":
		return []string{"isolation"}
	case "expect":
		return []string{"invariants", "recovery", "space", "abort"}
	case "phases.faults":
		return []string{"repeat", "recoverWithin"}
	case "phases.rescale":
		return []string{"switch"}
	case "phases.at":
		return []string{"checkpoint", "materialization"}
	case "report":
		return []string{"keep"}
	}
	return nil
}

// notYet is the message for what the format has but this version lacks.
const notYet = "is not supported yet in this version"
