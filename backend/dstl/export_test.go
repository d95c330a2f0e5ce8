package dstl

// Held is the bytes that a log keeps for readers that have not come to them.
func Held(l Log) int64 { return l.(*segmentLog).pool.held }
