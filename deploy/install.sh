#!/bin/sh
# Installs TunnelMesh as a service, upgrades it, or takes it away. Linux (systemd, OpenRC,
# procd) and macOS; Windows has install.ps1.
#
#   deploy/install.sh --role client --archive tunnelmesh-1.0.0-linux-amd64.tar.gz \
#     --config client.yaml --token-file client-token
#
# Run again with a newer archive it upgrades: the configuration stays, the old program is kept
# as .bak-<UTC>, a service that an administrator stopped or disabled stays so, and everything is
# put back when the new one does not accept the configuration, does not start, or when something
# fails on the way; only the service's user and folders that were made stay. Secrets are never
# flags; the token comes from a file.
#
# Exit: 0 done (also without a service manager), 1 interrupted (rolled back), 2 arguments,
# 3 preflight, 5 checksum, 6 configuration, 7 files or service could not be set up (rolled
# back), 8 uninstall.
set -eu
export LC_ALL=C
# `su` keeps the path of a user, which may lack the folders of useradd and rc-service.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
umask 022

role=
mode=system
archive=
bin_dir=
config=
token_file=
root=
has_yes=
wants_service=1
wants_start=1
wants_reconfigure=
is_uninstall=

say() { printf 'install: %s\n' "$*"; }
die() { # CODE MESSAGE; what was changed by then is put back
  has_code=1
  printf 'install: %s\n' "$2" >&2
  exit "$1"
}
usage() {
  cat <<'END'
usage: install.sh --role client|agent|server [options]
  --mode user|system   for this user, or for the machine (default; needs root)
  --archive FILE       tunnelmesh-<version>-<os>-<arch>.tar.gz; checked when SHA256SUMS is beside it
  --bin-dir DIR        folder with the programs, instead of an archive (default: beside this script)
  --config FILE        configuration for a first installation
  --reconfigure        put --config in the place of the present configuration (which is kept as .bak-<UTC>)
  --token-file FILE    file that holds the token; it is copied and readable for the service only
  --no-service         programs and configuration only
  --no-start           install the service, do not start it
  --uninstall          take service and program away; configuration and state stay
  --root DIR           install below DIR instead of /
  --yes                do not ask
END
}

# --- arguments ------------------------------------------------------------------

while [ $# -gt 0 ]; do
  case $1 in
    --role | --mode | --archive | --bin-dir | --config | --token-file | --root)
      [ -n "${2:-}" ] || die 2 "$1 needs a value"
      case $1 in
        --role) role=$2 ;;
        --mode) mode=$2 ;;
        --archive) archive=$2 ;;
        --bin-dir) bin_dir=$2 ;;
        --config) config=$2 ;;
        --token-file) token_file=$2 ;;
        --root) root=${2%/} ;;
      esac
      shift
      ;;
    --reconfigure) wants_reconfigure=1 ;;
    --no-service) wants_service= ;;
    --no-start) wants_start= ;;
    --uninstall) is_uninstall=1 ;;
    --yes) has_yes=1 ;;
    --help | -h)
      usage
      exit 0
      ;;
    # The value may be a secret: it is not repeated.
    --*token* | --*password* | --*secret* | --*dsn* | --*key*)
      die 2 "secrets are never flags (other users see them): put the token into a file and use --token-file"
      ;;
    *)
      usage >&2
      die 2 "unknown argument (see above)"
      ;;
  esac
  shift
done

case $role in
  client | agent | server) ;;
  "") die 2 "--role client, agent or server is needed" ;;
  *) die 2 "--role is client, agent or server" ;;
esac
[ "$mode" = user ] || [ "$mode" = system ] || die 2 "--mode is user or system"
[ -z "$archive" ] || [ -z "$bin_dir" ] || die 2 "--archive and --bin-dir exclude each other"
[ -z "$wants_reconfigure" ] || [ -n "$config" ] || die 2 "--reconfigure needs --config"
[ "$role" != server ] || [ -z "$token_file" ] || die 2 "a server has no token"
[ "$role" != server ] || [ "$mode" = system ] || die 2 "a server is installed with --mode system"
[ "$mode" = system ] || [ -n "${HOME:-}" ] || die 3 "--mode user needs HOME"

program=tunnelmesh-$role
now=$(date -u +%Y%m%dT%H%M%SZ)
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
os=$(uname -s)

# --- where things go --------------------------------------------------------------

# systemd, openrc, procd, launchd or none
manager=none
if [ "$os" = Darwin ] && [ -z "$root" ]; then
  manager=launchd
elif [ -d "$root/run/systemd/system" ]; then
  manager=systemd
elif [ -x "$root/sbin/procd" ]; then
  manager=procd
elif [ -x "$root/sbin/openrc-run" ]; then
  manager=openrc
fi

service_user=$program
[ "$role" != server ] || service_user=tunnelmesh
token_owner=root
unit=
unit_source=
if [ "$mode" = user ]; then
  service_user=$(id -un)
  token_owner=$service_user
  bin=$root$HOME/.local/bin
  etc=$root$HOME/.config/tunnelmesh
  case $manager in
    systemd)
      unit=$root$HOME/.config/systemd/user/$program.service
      unit_source=$here/systemd/user/$program.service
      ;;
    launchd)
      unit=$HOME/Library/LaunchAgents/com.tunnelmesh.$role.plist
      unit_source=$here/macos/$program.plist
      ;;
    *) manager=none ;;
  esac
else
  bin=$root/usr/local/bin
  etc=$root/etc/tunnelmesh
  case $manager in
    systemd)
      unit=$root/etc/systemd/system/$program.service
      unit_source=$here/systemd/$program.service
      ;;
    openrc)
      unit=$root/etc/init.d/$program
      unit_source=$here/openrc/$program
      token_owner=$service_user
      ;;
    procd)
      bin=$root/usr/bin
      unit=$root/etc/init.d/$program
      unit_source=$here/openwrt/$program
      service_user=root
      ;;
  esac
fi
[ -n "$wants_service" ] || [ -n "$is_uninstall" ] || manager=none
installed=$bin/$program
settings=$etc/$role.yaml
token=$etc/$role-token
# There from a first --no-start until the service is started here. Until then one that rests and is
# enabled counts as never started, also when it was started and stopped by hand.
never_started=$etc/$role.never-started

# --- the service manager ------------------------------------------------------------

has_status_stopped() { # COMMAND...: 3 is "not running" to OpenRC and procd; a crash is another number
  "$@" >/dev/null 2>&1 && return 1
  [ $? = 3 ]
}

# The script's own words for what each manager calls differently. One that failed, or waits to be
# started again, is not stopped.
service() { # reload-units|enable|disable|restart|stop|is-running|is-enabled|is-stopped
  case $manager in
    systemd)
      user_flag=
      [ "$mode" = system ] || user_flag=--user
      # shellcheck disable=SC2086  # no flag is no argument
      case $1 in
        reload-units) systemctl $user_flag daemon-reload ;;
        is-running) systemctl $user_flag is-active --quiet "$program" ;;
        is-enabled) systemctl $user_flag is-enabled --quiet "$program" ;;
        is-stopped) [ "$(systemctl $user_flag is-active "$program")" = inactive ] ;;
        *) systemctl $user_flag "$1" "$program" ;;
      esac
      ;;
    openrc)
      case $1 in
        reload-units) ;;
        enable) rc-update add "$program" default ;;
        disable) rc-update del "$program" default ;;
        is-enabled) rc-update show | grep -q "^ *$program " ;;
        is-stopped) has_status_stopped rc-service "$program" status ;;
        is-running)
          # To the supervisor a program is "started" also while it waits to start it again.
          rc-service "$program" status >/dev/null 2>&1 || return 1
          child=$root/run/openrc/options/$program/child_pid
          [ ! -r "$child" ] || kill -0 "$(cat "$child")" 2>/dev/null
          ;;
        *) rc-service "$program" "$1" ;;
      esac
      ;;
    procd)
      case $1 in
        reload-units) ;;
        # As the first line of the script has it.
        is-running) sh "$root/etc/rc.common" "$unit" running ;;
        is-enabled) sh "$root/etc/rc.common" "$unit" enabled ;;
        is-stopped) has_status_stopped sh "$root/etc/rc.common" "$unit" status ;;
        *) sh "$root/etc/rc.common" "$unit" "$1" ;;
      esac
      ;;
    launchd)
      label=com.tunnelmesh.$role
      domain=gui/$(id -u)
      case $1 in
        reload-units | enable | is-enabled) ;;
        is-stopped) ! launchctl print "$domain/$label" >/dev/null 2>&1 ;;
        stop | disable) launchctl bootout "$domain/$label" 2>/dev/null || true ;;
        restart)
          launchctl bootout "$domain/$label" 2>/dev/null || true
          # As long as the old one ends (it has 20 s) nothing takes its place.
          for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
            if launchctl bootstrap "$domain" "$unit" 2>/dev/null; then return 0; fi
            sleep "$((${TUNNELMESH_INSTALL_WAIT:-1} * 2))"
          done
          launchctl bootstrap "$domain" "$unit"
          ;;
        is-running) launchctl print "$domain/$label" | grep -q 'state = running' ;;
      esac
      ;;
    none) ;;
  esac
}

# It is up, and still is a moment later: a program that ends at once was "started", too.
starts() {
  service restart || return 1
  for _ in 1 2 3; do
    sleep "${TUNNELMESH_INSTALL_WAIT:-1}"
    service is-running || return 1
  done
}

# --- uninstall ----------------------------------------------------------------------

confirm() {
  [ -z "$has_yes" ] || return 0
  [ -t 0 ] || die 2 "nobody can be asked here: say --yes"
  printf '%s [y/N] ' "$1"
  read -r answer
  case $answer in
    y | Y | yes) ;;
    *) die 2 "nothing was changed" ;;
  esac
}

if [ -n "$is_uninstall" ]; then
  confirm "Remove $program and its service?"
  [ -e "$installed" ] || [ -e "${unit:-/nonexistent}" ] || die 8 "$program is not installed here"
  if [ -n "$unit" ] && [ -e "$unit" ]; then
    service stop || die 8 "the service could not be stopped; nothing was removed"
    service disable || true
    rm -f -- "$unit" || die 8 "$unit could not be removed"
    service reload-units || true
  fi
  rm -f -- "$installed" "$installed".bak-* || die 8 "$installed could not be removed"
  say "$program is removed; $etc and the service's state are still there"
  exit 0
fi

# --- preflight ------------------------------------------------------------------------

[ "$mode" = user ] || [ -n "$root" ] || [ "$(id -u)" = 0 ] || die 3 "--mode system needs root"
[ "$os" != Darwin ] || [ "$mode" = user ] || die 3 "on macOS use --mode user"
[ -z "$config" ] || [ -r "$config" ] || die 3 "--config: the file cannot be read"
[ -z "$token_file" ] || [ -s "$token_file" ] || die 3 "--token-file: the file cannot be read or is empty"
[ -n "$config" ] || [ -e "$settings" ] || die 3 "there is no configuration yet: give one with --config"
if [ "$role" != server ] && [ "$manager" != none ] && [ -z "$token_file" ] && [ ! -e "$token" ]; then
  die 3 "there is no token yet: give a file that holds it with --token-file"
fi
[ -z "$unit" ] || [ "$manager" = none ] || [ -r "$unit_source" ] || die 3 "$unit_source is missing"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/tunnelmesh-install.XXXXXX")
# What puts everything back, from the first change to the end.
undo=
has_code= # was said by die, or by a signal
# Every way out, also a command that failed (set -e: a full disk, a folder that is a file).
leave() {
  code=$?
  trap - EXIT
  trap '' HUP INT TERM
  set +e
  if [ -n "$undo" ]; then
    $undo
    [ -n "$has_code" ] || code=7
    say "not finished (see above); program, configuration and service are as they were" >&2
  fi
  rm -rf -- "$scratch"
  exit "$code"
}
trap leave EXIT
trap 'has_code=1; exit 1' HUP INT TERM

sha256_of() {
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum <"$1"
  else
    shasum -a 256 <"$1"
  fi | cut -d ' ' -f 1
}

if [ -n "$archive" ]; then
  [ -r "$archive" ] || die 3 "--archive: the file cannot be read"
  sums=$(dirname -- "$archive")/SHA256SUMS
  if [ -r "$sums" ]; then
    name=$(basename -- "$archive")
    wanted=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1; exit }' "$sums")
    [ -n "$wanted" ] || die 5 "SHA256SUMS does not list $name"
    [ "$(sha256_of "$archive")" = "$wanted" ] || die 5 "$name is not what SHA256SUMS says"
  else
    say "there is no SHA256SUMS beside the archive: it is not checked"
  fi
  mkdir "$scratch/archive"
  tar -xzf "$archive" -C "$scratch/archive" || die 3 "--archive: cannot be unpacked"
  found=$(find "$scratch/archive" -type f -name "$program" | head -n 1)
else
  [ -n "$bin_dir" ] || bin_dir=$here/bin
  found=$bin_dir/$program
fi
if [ -z "$found" ] || [ ! -f "$found" ]; then die 3 "there is no $program in what was given"; fi
cp -- "$found" "$scratch/$program"
# An ELF file of another machine is a script to some shells (BusyBox's), which run what they find in it.
if [ "$(head -c 4 "$scratch/$program" | tr -d '\177')" = ELF ]; then
  kind=$(od -An -tu1 -j 18 -N 1 "$scratch/$program" 2>/dev/null | tr -d ' ') || kind=
  case $(uname -m):$kind in
    x86_64:62 | x86_64:3 | i?86:3 | aarch64:183 | aarch64:40 | arm*:40) ;;
    x86_64:?* | i?86:?* | aarch64:?* | arm*:?*) die 3 "$program is for another kind of machine than this ($(uname -m))" ;;
  esac
fi
chmod 755 "$scratch/$program"
version=$("$scratch/$program" --version) ||
  die 3 "$program does not run on this machine, or not from ${TMPDIR:-/tmp} (noexec? set TMPDIR)"

confirm "Install $version as a $role ($mode, service manager: $manager)?"

# --- configuration --------------------------------------------------------------------

# What was there, to be put back.
while [ -e "$installed.bak-$now" ] || [ -e "$settings.bak-$now" ]; do
  sleep 1
  now=$(date -u +%Y%m%dT%H%M%SZ)
done
had_config=
had_token=
had_program=
had_unit=
[ ! -e "$settings" ] || had_config=1
[ ! -e "$token" ] || had_token=1
[ ! -e "$installed" ] || had_program=1
[ -z "$unit" ] || [ ! -e "$unit" ] || had_unit=1
# What an administrator stopped or disabled stays so.
was_stopped='' was_disabled=''
if [ -n "$had_program" ] && [ -n "$had_unit" ]; then
  if service is-stopped; then was_stopped=1; fi
  service is-enabled || was_disabled=1
fi
if [ -n "$was_stopped" ] && { [ -n "$was_disabled" ] || [ ! -e "$never_started" ]; }; then wants_start=; fi
# Said just before a file is replaced, when the copy of the old one is complete.
is_new_config='' is_new_token='' is_new_program='' is_new_unit=''

# NEW_FLAG HAD_FLAG FILE COPY: COPY is moved back, or FILE removed if there was none.
put_back_file() {
  rm -f -- "$3.new"
  if [ -z "$1" ]; then return 0; fi
  if [ -n "$2" ]; then mv -f -- "$4" "$3"; else rm -f -- "$3"; fi
}
roll_back() {
  if [ -n "$is_new_unit" ]; then
    service stop >/dev/null 2>&1 || true
    [ -n "$had_unit" ] || service disable >/dev/null 2>&1 || true
  fi
  put_back_file "$is_new_program" "$had_program" "$installed" "$installed.bak-$now"
  put_back_file "$is_new_config" "$had_config" "$settings" "$settings.bak-$now"
  rm -f -- "$installed.bak-$now" "$settings.bak-$now"
  put_back_file "$is_new_token" "$had_token" "$token" "$scratch/token"
  [ -z "$unit" ] || put_back_file "$is_new_unit" "$had_unit" "$unit" "$scratch/unit"
  if [ -z "$is_new_unit" ]; then return 0; fi
  service reload-units >/dev/null 2>&1 || true
  [ -z "$had_program" ] || [ -z "$had_unit" ] || [ -n "$was_stopped" ] ||
    service restart >/dev/null 2>&1 || true
}
undo=roll_back

# Users are made on this machine only, not below another root.
if [ "$mode" = system ] && [ -z "$root" ] && ! id "$service_user" >/dev/null 2>&1; then
  if command -v useradd >/dev/null 2>&1; then
    useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$service_user"
  else
    addgroup -S "$service_user"
    adduser -S -D -H -h /nonexistent -s /sbin/nologin -G "$service_user" "$service_user"
  fi
fi
can_give_to() { # USER
  [ "$mode" = system ] && [ "$(id -u)" = 0 ] && id "$1" >/dev/null 2>&1
}

mkdir -p -- "$bin" "$etc"
if [ -n "$config" ] && { [ ! -e "$settings" ] || [ -n "$wants_reconfigure" ]; }; then
  [ -z "$had_config" ] || cp -pP -- "$settings" "$settings.bak-$now"
  rm -f -- "$settings.new"
  (umask 077 && cp -- "$config" "$settings.new")
  chmod 640 "$settings.new"
  if can_give_to "$service_user"; then chgrp "$service_user" "$settings.new"; fi
  is_new_config=1
  mv -f -- "$settings.new" "$settings"
elif [ -n "$config" ]; then
  say "$settings is there and stays; --reconfigure replaces it"
fi
if [ -n "$token_file" ]; then
  [ -z "$had_token" ] || cp -pP -- "$token" "$scratch/token"
  rm -f -- "$token.new"
  (umask 077 && cp -- "$token_file" "$token.new")
  chmod 600 "$token.new"
  if can_give_to "$token_owner"; then chown "$token_owner" "$token.new"; fi
  is_new_token=1
  mv -f -- "$token.new" "$token"
fi

# The credentials that `systemctl edit` gave to the service, where the program looks for them.
link_credentials() {
  mkdir "$scratch/credentials"
  for drop_in in "$unit".d/*.conf; do
    [ -r "$drop_in" ] || continue
    sed -n 's/^LoadCredential=//p' "$drop_in" | while IFS=: read -r id path; do
      case $id in "" | */*) continue ;; esac
      case $path in /*) ln -sf -- "$root$path" "$scratch/credentials/$id" ;; esac
    done
  done
}
check_config() {
  (
    if [ "$manager" = systemd ]; then
      link_credentials
      export "CREDENTIALS_DIRECTORY=$scratch/credentials"
    fi
    [ ! -e "$token" ] || export "TUNNELMESH_$(printf %s "$role" | tr '[:lower:]' '[:upper:]')_TOKEN_FILE=$token"
    exec "$scratch/$program" check-config --config "$settings"
  )
}
check_config || die 6 "the configuration is not accepted"

# --- program and service ----------------------------------------------------------------

[ -z "$had_program" ] || cp -pP -- "$installed" "$installed.bak-$now"
cp -- "$scratch/$program" "$installed.new"
is_new_program=1
mv -f -- "$installed.new" "$installed"
# At the end of all that ends well: some programs to go back to, not one for each upgrade.
finish() {
  undo=
  find "$bin" -maxdepth 1 -name "$program.bak-*" | sort -r | tail -n +4 | while IFS= read -r old; do
    rm -f -- "$old"
  done
}

if [ "$manager" = none ]; then
  finish
  say "$version is installed as $installed; no service was set up"
  flags=$([ ! -e "$token" ] || printf ' --token-file %s' "$token")
  say "run it: $installed run --config $settings$flags"
  exit 0
fi

[ -z "$had_unit" ] || cp -pP -- "$unit" "$scratch/unit"
mkdir -p -- "$(dirname -- "$unit")"
sed "s|@HOME@|$(printf %s "${HOME:-}" | sed 's/[&|\\]/\\&/g')|g" "$unit_source" >"$unit.new"
case $manager in
  openrc | procd) chmod 755 "$unit.new" ;;
  *) chmod 644 "$unit.new" ;;
esac
is_new_unit=1
mv -f -- "$unit.new" "$unit"

if ! { service reload-units && { [ -n "$was_disabled" ] || service enable; }; }; then
  die 7 "the service could not be set up"
fi
if [ -z "$wants_start" ]; then
  [ -n "$had_unit" ] || : >"$never_started"
  finish
  say "$version is installed; the service was not started"
  exit 0
fi
starts || die 7 "$program did not start (its log says why)"
finish
rm -f -- "$never_started"
say "$version is installed and runs"
