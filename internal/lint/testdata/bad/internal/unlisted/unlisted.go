// Package unlisted has no row in the table of levels.
package unlisted // want: level
