package failpoint

// Points of the changelog's storage, in the order of a change's life. They are no checkpoint stages: they are passed
// between checkpoints too.
const (
	LogUploadBegin             = "log-upload-begin"             // worker: a segment is put
	LogUploadEnd               = "log-upload-end"               //
	LogTruncateBegin           = "log-truncate-begin"           // subtask: its log is truncated
	LogTruncateEnd             = "log-truncate-end"             //
	LogDeleteBegin             = "log-delete-begin"             // worker: segments that nobody needs are deleted
	LogDeleteEnd               = "log-delete-end"               //
	MaterializationBegin       = "materialization-begin"        // subtask: the synchronous part of a materialization
	MaterializationUploadBegin = "materialization-upload-begin" // subtask: its asynchronous part
	MaterializationUploadEnd   = "materialization-upload-end"   //
	MaterializationEnd         = "materialization-end"          // subtask: the new base is about to be used
)

// numStorage is the length of StoragePoints.
const numStorage = 10

// StoragePoints lists the points of the changelog's storage. The caller owns the list.
func StoragePoints() []string {
	return []string{
		LogUploadBegin, LogUploadEnd,
		LogTruncateBegin, LogTruncateEnd,
		LogDeleteBegin, LogDeleteEnd,
		MaterializationBegin,
		MaterializationUploadBegin, MaterializationUploadEnd,
		MaterializationEnd,
	}
}
