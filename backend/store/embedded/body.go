package embedded

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxObject is the largest body of one request, as on S3.
const maxObject = 5 << 30

// readBody returns the whole body of r, freed of its aws-chunked framing. A body that ends early, because the client was
// cancelled, is an error, so nothing becomes visible.
func readBody(r *http.Request) ([]byte, error) {
	framed := strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-")
	size := r.ContentLength
	if framed {
		n, err := strconv.ParseInt(r.Header.Get("X-Amz-Decoded-Content-Length"), 10, 64)
		if err != nil {
			return nil, errIncomplete
		}
		size = n
	}
	if size < 0 || size > maxObject {
		return nil, errBadArgument
	}
	if framed {
		return unframe(bufio.NewReaderSize(r.Body, 64<<10), size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return nil, errIncomplete
	}
	return body, nil
}

// unframe reads chunks of the form "<hex size>[;chunk-signature=...]\r\n<bytes>\r\n" up to the chunk of size 0, which
// trailing headers may follow. Signatures are not checked.
func unframe(in *bufio.Reader, size int64) ([]byte, error) {
	body := make([]byte, 0, size)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, errIncomplete
		}
		digits, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(digits, 16, 64)
		if err != nil || n < 0 || n > size-int64(len(body)) {
			return nil, errIncomplete
		}
		if n == 0 {
			break
		}
		at := len(body)
		body = body[:at+int(n)]
		if _, err := io.ReadFull(in, body[at:]); err != nil {
			return nil, errIncomplete
		}
		if crlf, err := in.ReadString('\n'); err != nil || crlf != "\r\n" {
			return nil, errIncomplete
		}
	}
	if int64(len(body)) != size {
		return nil, errIncomplete
	}
	_, err := io.Copy(io.Discard, in) // trailing headers, so that the connection can be used again
	if err != nil {
		return nil, errIncomplete
	}
	return body, nil
}
