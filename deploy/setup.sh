#!/usr/bin/env bash
# Brings TunnelMesh's dependencies onto a Debian 12 machine.
#
#   deploy/setup.sh [build|demo|test|check|bench|all]...      (default: build)
#
# Every group includes build. Nothing is done for what is already there, so
# `make` calls this each time. Packages come from the machine's own apt sources.
# Debian 12's mbedTLS has no TLS 1.3 and its llhttp accepts smuggled requests, so
# those two come from Debian 13, unpacked into a private prefix (.deps/trixie, or
# $TMESH_DEPS): same mirror, signatures verified, /etc/apt untouched. What validates the
# API's description is not in Debian: the test group has it in a Python of its own
# (.deps/python), in the versions that deploy/python.txt names.
# On any other system it installs nothing: it lists what is needed and fails
# unless all of it is found.
#
# Exit: 0 all there, 1 something is missing or an install failed, 2 usage.
set -euo pipefail
export LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

readonly BUILD_WHY="compilers, and the libraries that programs and unit tests link"
readonly DEMO_WHY="a client and a web server for make demo"
readonly TEST_WHY="clients, a web server and databases for make demo and make test"
readonly CHECK_WHY="sanitizers, fuzzing, formatting and static checks"
readonly BENCH_WHY="what make bench needs, and the proxies it measures beside"

readonly BUILD_PACKAGES=(make g++ cmake ninja-build pkg-config libuv1-dev libwslay-dev
  libsqlite3-dev default-libmysqlclient-dev libcjson-dev libyaml-dev libc-ares-dev
  libargon2-dev libcmocka-dev libgtest-dev libgmock-dev libbenchmark-dev)
readonly DEMO_PACKAGES=(curl python3 ca-certificates)
readonly TEST_PACKAGES=(curl nginx-light chromium python3 python3-venv openssl ca-certificates
  mariadb-server-core mariadb-client-core postgresql-15 systemd libplist-utils libxml2-utils shellcheck
  git iperf3 netcat-openbsd openssh-client openssh-server wget procps dnsmasq-base bind9-dnsutils)
readonly CHECK_PACKAGES=(clang-19 libclang-rt-19-dev llvm-19 clang-format-19 clang-tidy-19
  shellcheck)
readonly BENCH_PACKAGES=(python3 openssl util-linux openssh-client openssh-server microsocks
  shadowsocks-libev)
readonly PREFIX_PACKAGES=(libmbedtls-dev libllhttp-dev)

# Changes whenever the prefix must be made anew; first line of its stamp.
readonly PREFIX_RECIPE="tunnelmesh-deps 1"
readonly LOCK_WAIT_S=300

root=$(cd -- "${BASH_SOURCE[0]%/*}/.." && pwd)
readonly root
prefix=${TMESH_DEPS:-$root/.deps/trixie}
[[ $prefix == /* ]] || prefix=$PWD/$prefix
readonly prefix

scratch=
as_root=()
is_updated=0
is_start_held=0
is_cluster_held=0
readonly POLICY=/usr/sbin/policy-rc.d
readonly NO_CLUSTER=/etc/postgresql-common/createcluster.d/tunnelmesh-setup.conf

say() { printf 'setup: %s\n' "$*"; }
warn() { printf 'setup: %s\n' "$*" >&2; }
die() {
  warn "$@"
  exit 1
}
usage() {
  printf 'usage: deploy/setup.sh [build|demo|test|check|bench|all]...\n'
  printf '  build  %s\n  demo   %s\n  test   %s\n  check  %s\n' "$BUILD_WHY" "$DEMO_WHY" "$TEST_WHY" "$CHECK_WHY"
  printf '  bench  %s\n' "$BENCH_WHY"
  printf '  all    all but bench; every group includes build, which is the default\n'
  printf 'environment: TMESH_DEPS  prefix for mbedTLS and llhttp (default .deps/trixie)\n'
}

# shellcheck disable=SC2317,SC2329  # called by the EXIT trap
cleanup() {
  release_services
  [[ -z $scratch ]] || rm -rf -- "$scratch"
}
trap cleanup EXIT

# apt downloads as another user, who must be able to enter.
make_scratch() {
  [[ -z $scratch ]] || return 0
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/tmesh-setup.XXXXXX")
  chmod 755 "$scratch"
}

is_debian_12() {
  [[ -r /etc/os-release ]] && (
    # shellcheck disable=SC1091
    . /etc/os-release
    [[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]]
  )
}

# ---- apt ------------------------------------------------------------------

become_root() {
  [[ $EUID -ne 0 && ${#as_root[@]} -eq 0 ]] || return 0
  command -v sudo >/dev/null || die "run this as root, or install sudo; needed: $*"
  as_root=(sudo)
}

apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C \
    apt-get -q -y -o "DPkg::Lock::Timeout=$LOCK_WAIT_S" -o Acquire::Retries=3 "$@" </dev/null
}

# Once a run. A failure is only a warning: a broken third-party source must not
# stop an install that does not need it, and the install itself tells the rest.
apt_update() {
  ((is_updated == 0)) || return 0
  local deadline_s=$((SECONDS + LOCK_WAIT_S))
  make_scratch
  # apt-get waits for dpkg's lock by itself, but not for the one on the lists.
  until apt_get update >"$scratch/update" 2>&1; do
    if ! grep -q 'Could not get lock' "$scratch/update" || ((SECONDS >= deadline_s)); then
      grep -E '^(E|W|Err)' "$scratch/update" >&2 || true
      warn "apt-get update failed; going on with the package lists there are"
      break
    fi
    sleep 3
  done
  is_updated=1
}

# Prints those of the packages given that are not installed, one a line.
missing_packages() {
  dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    awk 'BEGIN { for (i = 1; i < ARGC; i++) { want[i] = ARGV[i]; ARGV[i] = "" } }
         $2 == "installed" { have[$1] = 1 }
         END { for (i = 1; i in want; i++) if (!(want[i] in have)) print want[i] }' "$@"
}

# Tests and bench run servers by themselves, on ports of their own. Debian's packages
# start them (nginx on port 80, where it fails without IPv6; sshd on port 22), so their
# start is refused while they are being installed, and a machine that did not have them
# does not serve from then on. PostgreSQL's package would also make a database of the machine.

# new_services PACKAGE...: prints the services of those whose program is not there yet.
new_services() {
  local package
  for package in "$@"; do
    case $package in
      nginx-light) command -v nginx >/dev/null || printf 'nginx\n' ;;
      openssh-server) command -v sshd >/dev/null || printf 'ssh\n' ;;
      postgresql-15) [[ -x /usr/lib/postgresql/15/bin/postgres ]] || printf 'postgresql\n' ;;
      microsocks) command -v microsocks >/dev/null || printf 'microsocks\n' ;;
      shadowsocks-libev) command -v ss-server >/dev/null || printf 'shadowsocks-libev\n' ;;
    esac
  done
}

# hold_services SERVICE...
hold_services() {
  make_scratch
  if [[ " $* " == *' postgresql '* ]]; then
    printf 'create_main_cluster = off\n' >"$scratch/cluster"
    is_cluster_held=1
    "${as_root[@]}" install -D -m 644 "$scratch/cluster" "$NO_CLUSTER"
  fi
  [[ ! -e $POLICY ]] || return 0
  cat >"$scratch/policy" <<EOF
#!/bin/sh
for held in $*; do [ "\$1" != "\$held" ] || exit 101; done
exit 0
EOF
  is_start_held=1
  "${as_root[@]}" install -m 755 "$scratch/policy" "$POLICY"
}

release_services() {
  if ((is_cluster_held == 1)); then
    "${as_root[@]}" rm -f "$NO_CLUSTER"
    "${as_root[@]}" rmdir --ignore-fail-on-non-empty "${NO_CLUSTER%/*}" || true
    is_cluster_held=0
  fi
  ((is_start_held == 1)) || return 0
  "${as_root[@]}" rm -f "$POLICY"
  is_start_held=0
}

# install_group NAME WHY PACKAGE...
install_group() {
  local name=$1 why=$2 missing=() services=() service
  shift 2
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    say "$name: complete ($why)"
    return 0
  fi
  say "$name: installing ${missing[*]} ($why)"
  become_root "${missing[*]}"
  apt_update
  # Where a server is there already, its service is somebody else's.
  mapfile -t services < <(new_services "${missing[@]}")
  ((${#services[@]} == 0)) || hold_services "${services[@]}"
  apt_get install --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install the $name packages"
  release_services
  for service in "${services[@]}"; do
    [[ -e /etc/init.d/$service || -e /lib/systemd/system/$service.service ]] || continue
    "${as_root[@]}" update-rc.d "$service" disable >/dev/null 2>&1 ||
      warn "$service is installed; it could not be kept from starting at the next boot"
  done
}

# ---- the private prefix ---------------------------------------------------

# Prints the path of a file in a prefix, whatever the machine's triplet is.
prefix_file() {
  local found=("$1"/usr/lib/*/"$2")
  [[ -f ${found[0]} ]] && printf '%s\n' "${found[0]}"
}

# is_prefix_complete DIR
is_prefix_complete() {
  local archive stamp=
  for archive in libmbedtls.a libmbedx509.a libmbedcrypto.a libllhttp.a; do
    prefix_file "$1" "$archive" >/dev/null || return 1
  done
  [[ -f $1/usr/include/mbedtls/ssl.h && -f $1/usr/include/llhttp.h && -r $1/stamp ]] || return 1
  read -r stamp <"$1/stamp"
  [[ $stamp == "$PREFIX_RECIPE" ]]
}

# Prints the URIs of the machine's sources that serve one of the releases given,
# whichever of apt's two formats they are written in.
source_uris() {
  apt-get indextargets --format "\$(REPO_URI) \$(RELEASE)" \
    'Created-By: Packages' 'Component: main' |
    awk 'BEGIN { for (i = 1; i < ARGC; i++) { want[ARGV[i]] = 1; ARGV[i] = "" } }
         $2 in want && $1 !~ /^cdrom:/ && !($1 in seen) { seen[$1] = 1; print $1 }' "$@"
}

# write_source FILE SUITE URI
write_source() {
  printf '%s\n' "Types: deb" "URIs: $3" "Suites: $2" "Components: main" "Targets: Packages" \
    "Architectures: $(dpkg --print-architecture)" \
    "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg" >"$1"
}

# apt-get with all of its state in the scratch folder; needs no root. The
# machine's apt.conf.d stays (proxies), without what it hooks onto an update.
private_apt() {
  apt-get -q -c "$scratch/apt.conf" -o Acquire::Retries=3 "$@" </dev/null
}

prepare_private_apt() {
  local uri
  mkdir -p "$scratch"/{sources,lists/partial,cache/archives/partial,state,debs}
  : >"$scratch/status"
  cat >"$scratch/apt.conf" <<EOF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$scratch/sources";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$scratch/state";
Dir::State::lists "$scratch/lists";
Dir::State::status "$scratch/status";
Dir::Cache "$scratch/cache";
Dir::Cache::pkgcache "$scratch/cache/pkgcache.bin";
Dir::Cache::srcpkgcache "$scratch/cache/srcpkgcache.bin";
APT::Default-Release "";
EOF
  # The lists tell the URIs; on a fresh machine there may be none yet.
  uri=$(source_uris bookworm stable oldstable | head -n 1)
  if [[ -z $uri ]]; then
    become_root "apt-get update"
    apt_update
    uri=$(source_uris bookworm stable oldstable | head -n 1)
  fi
  [[ -n $uri ]] || die "no apt source of this machine serves Debian 12 (main); add one and run again"
  write_source "$scratch/sources/trixie.sources" trixie "$uri"
  # Security updates too, where the machine takes its own from somewhere.
  uri=$(source_uris bookworm-security stable-security oldstable-security | head -n 1)
  [[ -z $uri ]] || write_source "$scratch/sources/trixie-security.sources" trixie-security "$uri"
}

# number FILE MACRO: the value of a #define.
number() { awk -v macro="$2" '$1 == "#define" && $2 == macro { print $3; exit }' "$1"; }

check_prefix_versions() {
  local mbedtls llhttp
  mbedtls=$(number "$1/usr/include/mbedtls/build_info.h" MBEDTLS_VERSION_NUMBER)
  llhttp=$(number "$1/usr/include/llhttp.h" LLHTTP_VERSION_MAJOR)
  ((${mbedtls:-0} >= 0x03060000)) || die "mbedTLS from Debian 13 is older than 3.6 (${mbedtls:-none})"
  ((${llhttp:-0} >= 9)) || die "llhttp from Debian 13 is older than 9 (${llhttp:-none})"
}

# Fills a new folder beside the prefix and swaps it in, so that a run that was
# cut short leaves no half prefix.
fill_prefix() {
  local deb fresh=$prefix.new
  make_scratch
  prepare_private_apt
  # A failed list is fatal here: apt-get would go on without the security updates.
  private_apt -o APT::Update::Error-Mode=any update >"$scratch/log" 2>&1 || {
    cat "$scratch/log" >&2
    die "could not read Debian 13's package lists (is debian-archive-keyring up to date?)"
  }
  if [[ $EUID -eq 0 ]]; then chown _apt "$scratch/debs" || true; fi
  (cd "$scratch/debs" && private_apt download "${PREFIX_PACKAGES[@]}") >"$scratch/log" 2>&1 || {
    cat "$scratch/log" >&2
    die "could not download ${PREFIX_PACKAGES[*]} from Debian 13"
  }
  rm -rf -- "$fresh"
  mkdir -p "$fresh"
  for deb in "$scratch"/debs/*.deb; do
    dpkg-deb -x "$deb" "$fresh"
  done
  # Only the static archives are for use: the links to shared libraries lead nowhere.
  find "$fresh" -name '*.so*' -delete
  {
    printf '%s\n' "$PREFIX_RECIPE"
    for deb in "$scratch"/debs/*.deb; do
      dpkg-deb -W --showformat="\${Package} \${Version} \${Architecture}\n" "$deb"
    done
  } >"$fresh/stamp"
  check_prefix_versions "$fresh"
  is_prefix_complete "$fresh" || die "the packages of Debian 13 lack a header or archive that is needed"
  if [[ -e $prefix ]]; then mv -T -- "$prefix" "$scratch/old"; fi
  mv -T -- "$fresh" "$prefix"
}

setup_prefix() {
  local why="mbedTLS 3.6 for TLS 1.3 and llhttp 9 for strict HTTP, from Debian 13"
  if ! is_prefix_complete "$prefix"; then
    say "prefix: unpacking ${PREFIX_PACKAGES[*]} into $prefix ($why)"
    if [[ -n $(ls -A -- "$prefix" 2>/dev/null) ]] && ! grep -qs '^tunnelmesh-deps ' "$prefix/stamp"; then
      die "$prefix is not empty, and not a prefix that this script made: not replacing it"
    fi
    mkdir -p -- "${prefix%/*}"
    exec 9>"$prefix.lock"
    flock -w "$LOCK_WAIT_S" 9 || die "another setup has held $prefix.lock for ${LOCK_WAIT_S} s"
    # The one that we waited for may have done the work.
    is_prefix_complete "$prefix" || fill_prefix
    exec 9>&-
    say "prefix: $(tail -n +2 "$prefix/stamp" | paste -sd ';' | sed 's/;/; /g')"
  else
    say "prefix: complete ($why)"
  fi
}

# ---- Python packages of the tests --------------------------------------------

# Made beside and swapped in, as the prefix is.
setup_python() {
  local home=$root/.deps/python fresh=$root/.deps/python.new wanted=$root/deploy/python.txt
  if [[ -x $home/bin/python ]] && cmp -s "$wanted" "$home/stamp" && "$home/bin/python" -c '' 2>/dev/null; then
    say "python: complete (what validates the description of the API)"
    return 0
  fi
  say "python: installing the packages of deploy/python.txt into $home"
  mkdir -p -- "${home%/*}"
  exec 9>"$home.lock"
  flock -w "$LOCK_WAIT_S" 9 || die "another setup has held $home.lock for ${LOCK_WAIT_S} s"
  if ! cmp -s "$wanted" "$home/stamp"; then
    rm -rf -- "$fresh"
    # Debian's, whatever else is in the path: tests run with what a fresh machine has.
    local python=/usr/bin/python3
    [[ -x $python ]] || python=$(command -v python3)
    "$python" -m venv "$fresh" || die "python3 cannot make a virtual environment"
    "$fresh/bin/python" -m pip -q --disable-pip-version-check install --no-deps -r "$wanted" ||
      die "pip could not install the packages of deploy/python.txt"
    # Its programs name the folder that they were made in; python and -m work in any.
    cp -- "$wanted" "$fresh/stamp"
    rm -rf -- "$home"
    mv -T -- "$fresh" "$home"
  fi
  exec 9>&-
}

# ---- other systems --------------------------------------------------------

# Prints what the build group lacks, found by asking for programs and headers.
lacking_for_build() {
  local tool cxx=
  for tool in make cmake ninja pkg-config; do
    command -v "$tool" >/dev/null || printf '%s\n' "$tool"
  done
  for tool in "${CXX:-c++}" g++ clang++; do
    if command -v "$tool" >/dev/null; then
      cxx=$tool
      break
    fi
  done
  if [[ -z $cxx ]]; then
    printf 'a C++ compiler (and so no library could be looked for)\n'
    return 0
  fi
  # shellcheck disable=SC2086  # CPPFLAGS is a list of words
  "$cxx" -std=c++20 -E -P -x c++ -I "$prefix/usr/include" ${CPPFLAGS:-} - <<'EOF' | sed -n 's/^LACKS //p'
#define TM_NO(header) !__has_include(header)
#if TM_NO(<uv.h>)
LACKS libuv
#endif
#if TM_NO(<wslay/wslay.h>)
LACKS wslay
#endif
#if TM_NO(<sqlite3.h>)
LACKS SQLite 3
#endif
#if TM_NO(<mysql.h>) && TM_NO(<mysql/mysql.h>) && TM_NO(<mariadb/mysql.h>)
LACKS MySQL or MariaDB C client
#endif
#if TM_NO(<cjson/cJSON.h>)
LACKS cJSON
#endif
#if TM_NO(<yaml.h>)
LACKS libyaml
#endif
#if TM_NO(<ares.h>)
LACKS c-ares
#endif
#if TM_NO(<argon2.h>)
LACKS Argon2
#endif
#if TM_NO(<cmocka.h>)
LACKS CMocka
#endif
#if TM_NO(<gtest/gtest.h>) || TM_NO(<gmock/gmock.h>)
LACKS GoogleTest and GoogleMock
#endif
#if TM_NO(<benchmark/benchmark.h>)
LACKS Google Benchmark
#endif
#if !TM_NO(<mbedtls/build_info.h>)
#include <mbedtls/build_info.h>
#endif
#if !defined(MBEDTLS_VERSION_NUMBER) || MBEDTLS_VERSION_NUMBER < 0x03060000
LACKS mbedTLS 3.6
#endif
#if !TM_NO(<llhttp.h>)
#include <llhttp.h>
#endif
#if !defined(LLHTTP_VERSION_MAJOR) || LLHTTP_VERSION_MAJOR < 9
LACKS llhttp 9
#endif
EOF
}

# Each argument names one program: alternatives separated by a bar.
lacking_programs() {
  local entry name names=()
  for entry in "$@"; do
    IFS='|' read -r -a names <<<"$entry"
    for name in "${names[@]}"; do
      command -v "$name" >/dev/null && continue 2
    done
    printf '%s\n' "${entry//|/ or }"
  done
}

check_other_system() {
  local with_test=$1 with_check=$2 with_bench=$3 lacking=()
  say "this is not Debian 12, so nothing gets installed; needed, by Debian's names:"
  say "build: ${BUILD_PACKAGES[*]} ($BUILD_WHY)"
  say "build: ${PREFIX_PACKAGES[*]} (mbedTLS 3.6 or later, llhttp 9 or later)"
  ((with_test == 0)) || say "test: ${TEST_PACKAGES[*]} ($TEST_WHY)"
  ((with_check == 0)) || say "check: ${CHECK_PACKAGES[*]} ($CHECK_WHY)"
  ((with_bench == 0)) || say "bench: ${BENCH_PACKAGES[*]} ($BENCH_WHY; proxies that are absent are left out)"
  mapfile -t lacking < <(
    lacking_for_build
    ((with_test == 0)) || lacking_programs curl nginx \
      'chromium|chromium-browser|google-chrome' python3 openssl mariadbd mariadb mariadb-install-db \
      git iperf3 nc ssh sshd wget dnsmasq dig psql
    ((with_test == 0)) || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || lacking_programs initdb
    ((with_bench == 0)) || lacking_programs python3 openssl
    ((with_check == 0)) || lacking_programs 'clang-19|clang' 'llvm-symbolizer-19|llvm-symbolizer' \
      'clang-format-19|clang-format' 'clang-tidy-19|clang-tidy' shellcheck
  )
  if ((${#lacking[@]} > 0)); then
    local item
    for item in "${lacking[@]}"; do warn "not found: $item"; done
    exit 1
  fi
  ((with_test == 0)) || setup_python
  say "everything needed is there"
}

# ---- main -----------------------------------------------------------------

main() {
  local arg with_demo=0 with_test=0 with_check=0 with_bench=0
  for arg in "$@"; do
    case $arg in
      build) ;;
      demo) with_demo=1 ;;
      test) with_test=1 ;;
      check) with_check=1 ;;
      bench) with_bench=1 ;;
      all) with_test=1 with_check=1 ;;
      -h | --help)
        usage
        return 0
        ;;
      *)
        warn "unknown group \"$arg\""
        usage >&2
        return 2
        ;;
    esac
  done
  if ! is_debian_12; then
    check_other_system "$with_test" "$with_check" "$with_bench"
    return 0
  fi
  install_group build "$BUILD_WHY" "${BUILD_PACKAGES[@]}"
  setup_prefix
  ((with_demo == 0)) || install_group demo "$DEMO_WHY" "${DEMO_PACKAGES[@]}"
  if ((with_test == 1)); then
    install_group test "$TEST_WHY" "${TEST_PACKAGES[@]}"
    setup_python
  fi
  ((with_check == 0)) || install_group check "$CHECK_WHY" "${CHECK_PACKAGES[@]}"
  ((with_bench == 0)) || install_group bench "$BENCH_WHY" "${BENCH_PACKAGES[@]}"
}

main "$@"
