package embedded

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxParts is the highest part number, as on S3.
const maxParts = 10_000

// open finds an upload of key; the caller holds the lock.
func (b *bucket) open(key, id string) (*upload, error) {
	u, ok := b.uploads.Get(id)
	if !ok || u.key != key {
		return nil, errNoUpload
	}
	return u, nil
}

func (h *Handler) beginUpload(w http.ResponseWriter, b *bucket, bucketName, key string) error {
	h.mu.Lock()
	h.mu.begun++
	id := fmt.Sprintf("%016x", h.mu.begun)
	b.uploads.Set(id, &upload{key: key, begun: time.Now().UTC(), parts: map[int]*object{}})
	h.mu.Unlock()
	writeXML(w, http.StatusOK, struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket   string
		Key      string
		UploadID string `xml:"UploadId"`
	}{Bucket: bucketName, Key: key, UploadID: id})
	return nil
}

func (h *Handler) putPart(w http.ResponseWriter, r *http.Request, b *bucket, key, id, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxParts {
		return errBadArgument
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	part := newObject(body)
	h.mu.Lock()
	u, err := b.open(key, id)
	if err == nil {
		u.parts[n] = part
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	w.Header().Set("Etag", part.etag)
	w.WriteHeader(http.StatusOK)
	return nil
}

type completeRequest struct {
	Part []struct {
		PartNumber int
		ETag       string
	}
}

// completeUpload makes the object of the parts named, which must be in order. The parts are put together without the
// lock; who takes the upload off the list first completes it.
func (h *Handler) completeUpload(w http.ResponseWriter, r *http.Request, b *bucket, bucketName, key, id string) error {
	var in completeRequest
	if err := readXML(r, &in); err != nil {
		return err
	}
	h.mu.RLock()
	u, err := b.open(key, id)
	var parts []*object
	size := 0
	for i, p := range in.Part {
		if err != nil {
			break
		}
		part := u.parts[p.PartNumber]
		if part == nil || strings.Trim(p.ETag, `"`) != strings.Trim(part.etag, `"`) || i > 0 && p.PartNumber <= in.Part[i-1].PartNumber {
			err = errBadPart
			break
		}
		parts = append(parts, part)
		size += len(part.body)
	}
	h.mu.RUnlock()
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return errBadXML
	}
	body := make([]byte, 0, size)
	for _, p := range parts {
		body = append(body, p.body...)
	}
	o := newObject(body)
	h.mu.Lock()
	if _, err = b.open(key, id); err == nil {
		b.uploads.Delete(id)
		h.store(b, key, o)
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	h.freed.Add(int64(size))
	writeXML(w, http.StatusOK, struct {
		XMLName  xml.Name `xml:"CompleteMultipartUploadResult"`
		Location string
		Bucket   string
		Key      string
		ETag     string
	}{Location: "/" + bucketName, Bucket: bucketName, Key: key, ETag: o.etag})
	return nil
}

func (h *Handler) abortUpload(w http.ResponseWriter, b *bucket, key, id string) error {
	h.mu.Lock()
	u, err := b.open(key, id)
	if err == nil {
		b.uploads.Delete(id)
		for _, p := range u.parts { // order-free: a sum
			h.freed.Add(int64(len(p.body)))
		}
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type uploadEntry struct {
	Key       string
	UploadID  string `xml:"UploadId"`
	Initiated string
}

type uploadsResult struct {
	XMLName            xml.Name `xml:"ListMultipartUploadsResult"`
	Bucket             string
	Prefix             string
	EncodingType       string `xml:",omitempty"`
	MaxUploads         int
	IsTruncated        bool
	NextKeyMarker      string        `xml:",omitempty"`
	NextUploadIDMarker string        `xml:"NextUploadIdMarker,omitempty"`
	Upload             []uploadEntry `xml:"Upload"`
}

// listUploads answers ListMultipartUploads, in the order of keys, then of beginning.
func (h *Handler) listUploads(w http.ResponseWriter, b *bucket, bucketName string, q url.Values) error {
	if q.Get("delimiter") != "" {
		return errUnsupported
	}
	most, err := limit(q, "max-uploads")
	if err != nil {
		return err
	}
	prefix, keyMarker, idMarker := q.Get("prefix"), q.Get("key-marker"), q.Get("upload-id-marker")
	var found []uploadEntry
	h.mu.RLock()
	b.uploads.Scan(func(id string, u *upload) bool {
		past := u.key > keyMarker || u.key == keyMarker && idMarker != "" && id > idMarker
		if strings.HasPrefix(u.key, prefix) && past {
			found = append(found, uploadEntry{Key: u.key, UploadID: id, Initiated: u.begun.Format(time.RFC3339Nano)})
		}
		return true
	})
	h.mu.RUnlock()
	slices.SortStableFunc(found, func(a, b uploadEntry) int { return cmp.Compare(a.Key, b.Key) })
	encoding, name := namer(q)
	out := uploadsResult{Bucket: bucketName, Prefix: name(prefix), EncodingType: encoding, MaxUploads: most}
	if len(found) > most {
		found = found[:most]
		out.IsTruncated = true
		out.NextKeyMarker, out.NextUploadIDMarker = name(found[most-1].Key), found[most-1].UploadID
	}
	for _, u := range found {
		u.Key = name(u.Key)
		out.Upload = append(out.Upload, u)
	}
	writeXML(w, http.StatusOK, out)
	return nil
}
