package minio

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// imageName is what images are called that were imported here; the tag is the version of the server's module.
const imageName = "statebench-minio"

// The labels of an imported image, which has no digest of a registry.
const (
	labelModule  = "dev.statebench.minio.module"
	labelVersion = "dev.statebench.minio.version"
	labelSHA256  = "dev.statebench.minio.sha256"
	labelGo      = "dev.statebench.minio.go"
)

// Source says where the image comes from.
type Source struct {
	// Image is a reference to take instead of one built here; with Pull it must be one by digest: name@sha256:...
	Image string
	// Pull allows to fetch Image when it is not there.
	Pull bool
	// NoBuild forbids to build the server.
	NoBuild bool
	// Announce is told, before it begins, of what takes long. Nil: nobody is.
	Announce func(text string)
	// Cache is the folder that a built server is kept in; empty means one in the user's cache.
	Cache string
}

func (s Source) announce(format string, args ...any) {
	if s.Announce != nil {
		s.Announce(fmt.Sprintf(format, args...))
	}
}

// Image is what a container is made from.
type Image struct {
	// Name is the reference it was found by, ID the engine's own digest of it.
	Name, ID string
	// Digest is that of the registry it was pulled from, empty for one made here.
	Digest string
	// Binary is the server in it, for an image that was made here; zero else.
	Binary Binary
}

// String names everything by which the image can be told from another.
func (i Image) String() string {
	switch {
	case i.Digest != "":
		return fmt.Sprintf("%s, digest %s, image %s", i.Name, i.Digest, i.ID)
	case i.Binary.SHA256 != "":
		return fmt.Sprintf("%s, image %s", i.Binary, i.ID)
	}
	return fmt.Sprintf("%s, image %s", i.Name, i.ID)
}

// NoImageError says that there is no image and that none may be made, and what to do.
type NoImageError struct{ Why string }

// Error names the ways on.
func (e *NoImageError) Error() string {
	return "no image of MinIO: " + e.Why + "; the ways on are: let it be built from source, fetch one that is named by its digest (pull), " +
		"or take the store that needs none: --store embedded"
}

// Resolve finds the image, or makes it: the one that the source names, else one that was imported before, else one around a
// binary built before, else it builds the binary. It returns a *NoImageError when nothing of that is there or allowed.
func (e *Engine) Resolve(ctx context.Context, s Source) (Image, error) {
	if s.Image != "" {
		return e.named(ctx, s)
	}
	name := imageName + ":" + moduleVersion
	img, err := e.inspect(ctx, name)
	if err == nil || !gone(err) {
		return img, err
	}
	b, err := s.binary(ctx, e.arch)
	if err != nil {
		return Image{}, err
	}
	if err := e.importImage(ctx, name, b); err != nil {
		return Image{}, fmt.Errorf("import MinIO as image %s: %w", name, err)
	}
	return e.inspect(ctx, name)
}

// Present tells, without changing anything, whether Resolve would find an image (or at least a binary) at once.
func (e *Engine) Present(ctx context.Context, s Source) (Image, bool, error) {
	name := s.Image
	if name == "" {
		name = imageName + ":" + moduleVersion
	}
	img, err := e.inspect(ctx, name)
	if err != nil && gone(err) {
		return Image{}, false, nil
	}
	return img, err == nil, err
}

// named finds or pulls the image that the user has named.
func (e *Engine) named(ctx context.Context, s Source) (Image, error) {
	img, err := e.inspect(ctx, s.Image)
	if err == nil || !gone(err) {
		return img, err
	}
	_, digest, byDigest := strings.Cut(s.Image, "@sha256:")
	switch {
	case !s.Pull:
		return Image{}, &NoImageError{s.Image + " is not there, and may not be fetched"}
	case !byDigest || len(digest) != 64:
		return Image{}, &NoImageError{s.Image + " does not end in @sha256: and a digest, so what it stands for may change"}
	}
	s.announce("fetching %s", s.Image)
	r, err := e.client.ImagePull(ctx, s.Image, client.ImagePullOptions{})
	if err != nil {
		return Image{}, fmt.Errorf("fetch %s: %w", s.Image, err)
	}
	if err := drain(r); err != nil {
		return Image{}, fmt.Errorf("fetch %s: %w", s.Image, err)
	}
	return e.inspect(ctx, s.Image)
}

func (e *Engine) inspect(ctx context.Context, name string) (Image, error) {
	r, err := e.client.ImageInspect(ctx, name)
	if err != nil {
		return Image{}, fmt.Errorf("image %s: %w", name, err)
	}
	img := Image{Name: name, ID: r.ID}
	for _, d := range r.RepoDigests {
		_, img.Digest, _ = strings.Cut(d, "@")
	}
	if r.Config != nil && r.Config.Labels[labelModule] != "" {
		l := r.Config.Labels
		img.Binary = Binary{Module: l[labelModule], Version: l[labelVersion], SHA256: l[labelSHA256], Go: l[labelGo]}
	}
	return img, nil
}

// importImage makes an image that holds nothing but the binary and two folders. It takes no builder.
func (e *Engine) importImage(ctx context.Context, name string, b Binary) error {
	r, w := io.Pipe()
	defer r.Close() // ends the writer when the engine has stopped reading
	go func() { w.CloseWithError(writeImage(w, b.Path)) }()
	out, err := e.client.ImageImport(ctx, client.ImageImportSource{Source: r, SourceName: "-"}, name, client.ImageImportOptions{
		Message: "MinIO built from its module by bench",
		Changes: []string{
			`ENTRYPOINT ["/minio"]`, `CMD ["server", "/data"]`, "WORKDIR /data", "EXPOSE 9000",
			"LABEL " + labelModule + "=" + b.Module, "LABEL " + labelVersion + "=" + b.Version,
			"LABEL " + labelSHA256 + "=" + b.SHA256, "LABEL " + labelGo + "=" + b.Go,
		},
	})
	if err != nil {
		return err
	}
	return drain(out)
}

// writeImage writes the file system of the image.
func writeImage(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	epoch := time.Unix(0, 0)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o700, ModTime: epoch},
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777, ModTime: epoch},
		{Typeflag: tar.TypeReg, Name: "minio", Mode: 0o755, Size: info.Size(), ModTime: epoch},
	} {
		if err := t.WriteHeader(&h); err != nil {
			return err
		}
	}
	if _, err := io.Copy(t, f); err != nil {
		return err
	}
	return t.Close()
}

// drain reads the engine's report of a task to its end and returns the error that it tells of.
func drain(r io.ReadCloser) error {
	defer r.Close()
	d := json.NewDecoder(r)
	for {
		var line struct {
			Error string `json:"error"`
		}
		err := d.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && line.Error != "" {
			err = errors.New(line.Error)
		}
		if err != nil {
			return err
		}
	}
}
