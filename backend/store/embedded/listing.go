package embedded

import (
	"encoding/base64"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// pageSize is the most entries of one answer.
const pageSize = 1000

// maxXML bounds the XML that a client may send: 1,000 keys of 1,024 bytes, escaped.
const maxXML = 16 << 20

// namer encodes keys as the client asked for.
func namer(q url.Values) (encoding string, name func(string) string) {
	if q.Get("encoding-type") == "url" {
		return "url", url.QueryEscape
	}
	return "", func(s string) string { return s }
}

func limit(q url.Values, name string) (int, error) {
	text := q.Get(name)
	if text == "" || text == "0" { // minio-go sends 0 for none
		return pageSize, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, errBadArgument
	}
	return min(n, pageSize), nil
}

type listEntry struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
	StorageClass string
}

type listResult struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	StartAfter            string `xml:",omitempty"`
	KeyCount              int
	MaxKeys               int
	EncodingType          string `xml:",omitempty"`
	IsTruncated           bool
	ContinuationToken     string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listEntry
}

// list answers ListObjectsV2. The continuation token is the last key of the page before.
func (h *Handler) list(w http.ResponseWriter, b *bucket, bucketName string, q url.Values) error {
	if q.Get("delimiter") != "" {
		return errUnsupported
	}
	most, err := limit(q, "max-keys")
	if err != nil {
		return err
	}
	prefix, after := q.Get("prefix"), q.Get("start-after")
	if token := q.Get("continuation-token"); token != "" {
		last, err := base64.URLEncoding.DecodeString(token)
		if err != nil {
			return errBadArgument
		}
		after = string(last)
	}
	encoding, name := namer(q)
	out := listResult{
		Name: bucketName, Prefix: name(prefix), StartAfter: name(q.Get("start-after")), MaxKeys: most, EncodingType: encoding,
		ContinuationToken: q.Get("continuation-token"),
	}
	last := ""
	h.mu.RLock()
	b.objects.Ascend(max(prefix, after), func(key string, o *object) bool {
		if key == after {
			return true
		}
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		if len(out.Contents) == most {
			out.IsTruncated = true
			return false
		}
		out.Contents = append(out.Contents, listEntry{
			Key: name(key), LastModified: o.modified.Format(time.RFC3339Nano), ETag: o.etag, Size: int64(len(o.body)), StorageClass: "STANDARD",
		})
		last = key
		return true
	})
	h.mu.RUnlock()
	out.KeyCount = len(out.Contents)
	if out.IsTruncated {
		out.NextContinuationToken = base64.URLEncoding.EncodeToString([]byte(last))
	}
	writeXML(w, http.StatusOK, out)
	return nil
}

type deleteRequest struct {
	Quiet  bool
	Object []struct{ Key string }
}

type deleteResult struct {
	XMLName xml.Name `xml:"DeleteResult"`
	Deleted []struct{ Key string }
}

// bulkDelete answers DeleteObjects.
func (h *Handler) bulkDelete(w http.ResponseWriter, r *http.Request, b *bucket) error {
	var in deleteRequest
	if err := readXML(r, &in); err != nil {
		return err
	}
	if len(in.Object) > pageSize {
		return errBadXML
	}
	var out deleteResult
	h.mu.Lock()
	for _, o := range in.Object {
		h.remove(b, o.Key)
		if !in.Quiet {
			out.Deleted = append(out.Deleted, struct{ Key string }{o.Key})
		}
	}
	h.mu.Unlock()
	writeXML(w, http.StatusOK, out)
	return nil
}

func readXML(r *http.Request, into any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxXML))
	if err != nil {
		return errIncomplete
	}
	if err := xml.Unmarshal(body, into); err != nil {
		return errBadXML
	}
	return nil
}
