package embedded

import (
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"
	"github.com/zeebo/xxh3"
)

// Handler is the S3 server: buckets, whole and ranged gets, plain and conditional puts, multipart uploads, listings of
// version 2 without delimiter, single and bulk deletes. Requests are not authenticated: who may connect is the business
// of the socket. Bodies framed as aws-chunked are decoded. Entity tags are digests, but not MD5.
type Handler struct {
	mu struct {
		sync.RWMutex
		buckets map[string]*bucket
		begun   uint64 // uploads
	}
	freed atomic.Int64 // bytes deleted since memory was last given back
}

type bucket struct {
	objects btree.Map[string, *object]
	uploads btree.Map[string, *upload] // by id; ids grow, so they are in the order in which they were begun
}

// object is immutable.
type object struct {
	body     []byte
	etag     string
	modified time.Time
}

type upload struct {
	key   string
	begun time.Time
	parts map[int]*object
}

// NewHandler returns a server without buckets.
func NewHandler() *Handler {
	h := &Handler{}
	h.mu.buckets = map[string]*bucket{}
	return h
}

func newObject(body []byte) *object {
	sum := xxh3.Hash128(body).Bytes()
	return &object{body: body, etag: `"` + hex.EncodeToString(sum[:]) + `"`, modified: time.Now().UTC()}
}

// fault is an error of S3, sent as XML.
type fault struct {
	status  int
	code    string
	message string
}

func (f *fault) Error() string { return f.code + ": " + f.message }

var (
	errNoBucket     = &fault{http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist"}
	errNoKey        = &fault{http.StatusNotFound, "NoSuchKey", "The specified key does not exist"}
	errNoUpload     = &fault{http.StatusNotFound, "NoSuchUpload", "The specified upload does not exist"}
	errTaken        = &fault{http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the preconditions you specified did not hold"}
	errRange        = &fault{http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable"}
	errUnsupported  = &fault{http.StatusNotImplemented, "NotImplemented", "This server does not have that function"}
	errBadPart      = &fault{http.StatusBadRequest, "InvalidPart", "A part is missing or has another entity tag"}
	errBucketExists = &fault{http.StatusConflict, "BucketAlreadyOwnedByYou", "The bucket exists"}
	errIncomplete   = &fault{http.StatusBadRequest, "IncompleteBody", "The body ended early or is not framed as announced"}
	errBadXML       = &fault{http.StatusBadRequest, "MalformedXML", "The XML could not be read"}
	errBadArgument  = &fault{http.StatusBadRequest, "InvalidArgument", "An argument is not usable"}
)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "bench-embedded")
	err := h.route(w, r)
	if err == nil {
		return
	}
	var f *fault
	if !errors.As(err, &f) {
		f = &fault{http.StatusInternalServerError, "InternalError", err.Error()}
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(f.status)
		return
	}
	writeXML(w, f.status, struct {
		XMLName  xml.Name `xml:"Error"`
		Code     string
		Message  string
		Resource string
	}{Code: f.code, Message: f.message, Resource: r.URL.Path})
}

func writeXML(w http.ResponseWriter, status int, v any) {
	body, err := xml.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body = append([]byte(xml.Header), body...)
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// route finds the operation of a path-style request.
func (h *Handler) route(w http.ResponseWriter, r *http.Request) error {
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if name == "" {
		return errUnsupported
	}
	if key == "" {
		return h.routeBucket(w, r, name)
	}
	b, err := h.bucket(name)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	switch id := q.Get("uploadId"); {
	case r.Method == http.MethodPost && q.Has("uploads"):
		return h.beginUpload(w, b, name, key)
	case r.Method == http.MethodPut && id != "":
		return h.putPart(w, r, b, key, id, q.Get("partNumber"))
	case r.Method == http.MethodPost && id != "":
		return h.completeUpload(w, r, b, name, key, id)
	case r.Method == http.MethodDelete && id != "":
		return h.abortUpload(w, b, key, id)
	case r.Method == http.MethodPut:
		return h.put(w, r, b, key)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return h.get(w, r, b, key)
	case r.Method == http.MethodDelete:
		h.mu.Lock()
		h.remove(b, key)
		h.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return errUnsupported
}

func (h *Handler) routeBucket(w http.ResponseWriter, r *http.Request, name string) error {
	if r.Method == http.MethodPut {
		return h.createBucket(w, name)
	}
	b, err := h.bucket(name)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusOK)
		return nil
	case r.Method == http.MethodPost && q.Has("delete"):
		return h.bulkDelete(w, r, b)
	case r.Method == http.MethodGet && q.Has("location"):
		writeXML(w, http.StatusOK, struct {
			XMLName xml.Name `xml:"LocationConstraint"`
		}{})
		return nil
	case r.Method == http.MethodGet && q.Has("uploads"):
		return h.listUploads(w, b, name, q)
	case r.Method == http.MethodGet && q.Get("list-type") == "2":
		return h.list(w, b, name, q)
	}
	return errUnsupported
}

func (h *Handler) bucket(name string) (*bucket, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if b := h.mu.buckets[name]; b != nil {
		return b, nil
	}
	return nil, errNoBucket
}

func (h *Handler) createBucket(w http.ResponseWriter, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.buckets[name] != nil {
		return errBucketExists
	}
	h.mu.buckets[name] = &bucket{}
	w.Header().Set("Location", "/"+name)
	w.WriteHeader(http.StatusOK)
	return nil
}

// put stores a body. The condition is judged under the lock that makes the object visible, so of several one wins.
func (h *Handler) put(w http.ResponseWriter, r *http.Request, b *bucket, key string) error {
	if r.Header.Get("X-Amz-Copy-Source") != "" || r.Header.Get("If-Match") != "" {
		return errUnsupported
	}
	ifAbsent := r.Header.Get("If-None-Match")
	if ifAbsent != "" && ifAbsent != "*" {
		return errUnsupported
	}
	body, err := readBody(r)
	if err != nil {
		return err
	}
	o := newObject(body)
	h.mu.Lock()
	if _, taken := b.objects.Get(key); taken && ifAbsent != "" {
		h.mu.Unlock()
		return errTaken
	}
	h.store(b, key, o)
	h.mu.Unlock()
	w.Header().Set("Etag", o.etag)
	w.WriteHeader(http.StatusOK)
	return nil
}

// store makes o visible; the caller holds the lock.
func (h *Handler) store(b *bucket, key string, o *object) {
	if old, ok := b.objects.Set(key, o); ok {
		h.freed.Add(int64(len(old.body)))
	}
}

// remove deletes key if it exists; the caller holds the lock.
func (h *Handler) remove(b *bucket, key string) {
	if old, ok := b.objects.Delete(key); ok {
		h.freed.Add(int64(len(old.body)))
	}
}

func (h *Handler) get(w http.ResponseWriter, r *http.Request, b *bucket, key string) error {
	h.mu.RLock()
	o, ok := b.objects.Get(key)
	h.mu.RUnlock()
	if !ok {
		return errNoKey
	}
	body, status := o.body, http.StatusOK
	hd := w.Header()
	hd.Set("Accept-Ranges", "bytes")
	if spec := r.Header.Get("Range"); spec != "" {
		from, to, err := parseRange(spec, int64(len(body)))
		if err != nil {
			return err
		}
		hd.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(body)))
		body, status = body[from:to], http.StatusPartialContent
	}
	hd.Set("Etag", o.etag)
	hd.Set("Last-Modified", o.modified.Format(http.TimeFormat))
	hd.Set("Content-Type", "application/octet-stream")
	hd.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
	return nil
}

// parseRange reads "bytes=a-b", "bytes=a-" or "bytes=-n" for a body of size bytes and returns it as half-open range.
func parseRange(spec string, size int64) (from, to int64, err error) {
	spec, ok := strings.CutPrefix(spec, "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !dash {
		return 0, 0, errRange
	}
	if first == "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n <= 0 || size == 0 {
			return 0, 0, errRange
		}
		return max(0, size-n), size, nil
	}
	if from, err = strconv.ParseInt(first, 10, 64); err != nil || from < 0 || from >= size {
		return 0, 0, errRange
	}
	if last == "" {
		return from, size, nil
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < from {
		return 0, 0, errRange
	}
	return from, min(n, size-1) + 1, nil
}
