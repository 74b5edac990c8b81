# What the `run` of each comparison shares; sourced by it, with `here` being its folder.
# shellcheck shell=bash disable=SC2154
profile=${COMPARE_PROFILE:-release}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/../target}
name=compare-$(basename "$here")
programs=$CARGO_TARGET_DIR/$name-programs
built=$CARGO_TARGET_DIR/$([ "$profile" = dev ] && echo debug || echo "$profile")
mkdir -p "$programs"

missing() { # LANGUAGE TOOLS…
    local language=$1 tool
    shift
    for tool in "$@"; do
        command -v "$tool" >/dev/null && continue
        echo "run: $tool is missing; the peers in $language are left out" >&2
        return 0
    done
    return 1
}

version() { # NAME FILE PATTERN
    printf '%s %s' "$1" "$(sed -nE "s/$3/\1/p" "$2" | head -n 1)"
}

versions_of_languages() {
    ! command -v java >/dev/null || java -version 2>&1 | sed -nE 's/.* version "([^"]+)".*/; Java \1/p' | tr -d '\n'
    ! command -v go >/dev/null || go version | sed -nE 's/.*go([0-9.]+) .*/, Go \1/p' | tr -d '\n'
}

build_rust() {
    cargo build --manifest-path "$here/Cargo.toml" --profile "$profile" --locked --quiet
    ln -sf "$built/$name-client" "$programs/client"
}

build_go() {
    missing Go go || (cd "$here/go" && go build -o "$programs/go-client" .)
}

build_java() {
    missing Java java mvn ||
        mvn -q -B -Dstyle.color=never -f "$here/java/pom.xml" -Dout="$programs/java" package >&2
}
