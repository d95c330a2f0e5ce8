package canon

import "encoding/binary"

// Output appends the encoding of one output record to dst: source partition, index and tag, which are its identity, the
// length-prefixed key, and the value. Sinks and models digest output records in this form.
func Output(dst []byte, partition int32, index int64, tag uint8, key, value []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(partition))
	dst = binary.BigEndian.AppendUint64(dst, uint64(index))
	dst = append(dst, tag)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(key)))
	dst = append(dst, key...)
	return append(dst, value...)
}
