package localcopy

// Trailer is what follows an object in its copy.
func Trailer(body []byte) []byte { return trailer(body) }
