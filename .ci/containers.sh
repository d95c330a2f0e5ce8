# What the container tests need, for .ci/run to source: an engine, the image of MinIO, and an end to both. It works as root
# without a terminal, starts an engine only where none answers, and ends only what it started.
#
#   . .ci/containers.sh
#   trap 'containers_stop' EXIT
#   containers_start DIR     an engine answers; DIR keeps its log and process number
#   containers_image BENCH   the image is there and a server made from it has been up; built from source the first time
#   containers_stop          the engine started here has ended
#
# shellcheck shell=bash

export BENCH_REQUIRE_CONTAINERS=1 # the tests of containers may not be left out

containers_dir=
containers_socket=/var/run/docker.sock

containers_answer() {
	[ -S "$containers_socket" ] && curl -fsS --max-time 5 --unix-socket "$containers_socket" http://localhost/_ping >/dev/null 2>&1
}

# containers_install PROGRAM PACKAGE... installs packages when a program is missing.
containers_install() {
	local program=$1
	shift
	if command -v "$program" >/dev/null; then return 0; fi
	if [ "$(id -u)" -ne 0 ]; then
		echo "$program is missing and only root can install it: $*" >&2
		return 1
	fi
	echo "$program is missing, installing $*"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# containers_try OPTION... starts an engine and waits until it answers or ends. It needs no rules of the firewall and no
# forwarding, since ports are published on the loopback address only, where a process of the engine carries them.
containers_try() {
	local log="$containers_dir/dockerd.log" pid i
	dockerd --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false "$@" >"$log" 2>&1 </dev/null &
	pid=$!
	echo "$pid" >"$containers_dir/dockerd.pid"
	for ((i = 0; i < 300; i++)); do
		if containers_answer; then
			echo "dockerd runs as process $pid${*:+ with $*}"
			return 0
		fi
		if ! kill -0 "$pid" 2>/dev/null; then break; fi
		sleep 0.1
	done
	containers_stop
	echo "dockerd $* does not come up:"
	tail -n 5 "$log"
	return 1
}

containers_start() {
	containers_dir=$1
	containers_install curl curl ca-certificates
	if containers_answer; then
		echo "an engine is running already"
		return 0
	fi
	containers_install dockerd docker.io
	containers_install iptables iptables
	containers_try || containers_try --storage-driver=vfs # where overlays cannot be stacked
}

containers_image() {
	local code=0
	"$1" env up >/dev/null || code=$?
	"$1" env down || code=$?
	return "$code"
}

# containers_stop ends the engine that containers_start started, and what that started, and waits for it.
containers_stop() {
	local file="${containers_dir:-${work:-}}/dockerd.pid" pid i
	[ -f "$file" ] || return 0
	pid=$(cat "$file")
	rm -f "$file"
	kill -TERM "$pid" 2>/dev/null || return 0
	for ((i = 0; i < 300; i++)); do
		if ! kill -0 "$pid" 2>/dev/null; then return 0; fi
		sleep 0.1
	done
	kill -KILL "$pid" 2>/dev/null || true
}
