module statebench.dev/bench

go 1.26
