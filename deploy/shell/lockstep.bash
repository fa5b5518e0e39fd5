# Completion of `lockstep` in bash: commands, their flags, files, and keys of configurations.
# Flags and keys come from --help and --help-keys, which are asked once in a shell.

declare -gA _lockstep_known=()

# _lockstep_ask WORDS...: what `lockstep WORDS...` prints, remembered.
_lockstep_ask() {
  local question="$*"
  [[ -v _lockstep_known["$question"] ]] || _lockstep_known["$question"]=$(lockstep "$@" 2>/dev/null)
  printf '%s\n' "${_lockstep_known["$question"]}"
}

_lockstep_flags() { _lockstep_ask "$@" --help | grep -oE -- '--[a-z][a-z0-9-]+' | sort -u; }

_lockstep_keys() { _lockstep_ask train --help-keys | sed -nE 's/^ +([a-z_]+\.[a-z_.]+) \(.*/\1=/p'; }

_lockstep() {
  local commands="train eval predict run launch plan calibrate data checkpoint rank-table doctor scheduler certs status
    bench operator convert info"
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
    return
  fi
  case $before in
    --config | -c)
      mapfile -t COMPREPLY < <(compgen -f -X '!*.y*ml' -- "$current"; compgen -d -- "$current")
      return
      ;;
    --weights | --json | --out | --images | --cluster | --save | --html | --hostfile | --log-dir)
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
      ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_lockstep_flags "$command")" -- "$current")
    return
  fi
  case $command in
    train | eval | predict | plan)
      mapfile -t COMPREPLY < <(compgen -W "$(_lockstep_keys)" -- "$current")
      compopt -o nospace 2>/dev/null
      ;;
    run | launch) mapfile -t COMPREPLY < <(compgen -c -- "$current"; compgen -f -- "$current") ;;
    data) mapfile -t COMPREPLY < <(compgen -W "$(_lockstep_ask data --help | sed -nE 's/^  ([a-z]+) .*/\1/p')" -- "$current") ;;
    checkpoint) mapfile -t COMPREPLY < <(compgen -W "inspect merge reshard" -- "$current"; compgen -f -- "$current") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
  esac
}

complete -F _lockstep lockstep
