"""What lets shells complete the command line: scripts that ask the command, show what it says, and run nothing of it.

The command answers with a line that says whether files are meant as well, and then, a line each, with what may be
typed, a tab, and words about it. What may be typed has no character that means anything to a shell.
"""

from __future__ import annotations

from typing import Final

BASH: Final = r"""
_reenact_completion() {
    local line value
    local -i widest=0
    local -a lines=() values=()
    COMPREPLY=()
    while IFS= read -r line; do
        lines+=("$line")
    done < <(env _REENACT_COMPLETE=bash @PROGRAM@ "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    (( ${#lines[@]} )) || return 0
    for line in "${lines[@]:1}"; do
        value=${line%%$'\t'*}
        values+=("$value")
        (( ${#value} > widest )) && widest=${#value}
    done
    if (( ${#values[@]} > 1 )) && [[ $COMP_TYPE -eq 63 || $COMP_TYPE -eq 33 ]]; then
        for line in "${lines[@]:1}"; do
            printf -v value '%-*s  %s' "$widest" "${line%%$'\t'*}" "${line#*$'\t'}"
            COMPREPLY+=("$value")
        done
        compopt -o nosort 2>/dev/null
    elif (( ${#values[@]} )); then
        COMPREPLY=("${values[@]}")
    elif [[ ${lines[0]} == files ]]; then
        compopt -o default 2>/dev/null
    fi
    return 0
}
complete -F _reenact_completion reenact
"""

ZSH: Final = r"""
#compdef reenact
_reenact() {
    local line tab=$'\t'
    local -a lines values shown
    lines=("${(@f)$(env _REENACT_COMPLETE=zsh @PROGRAM@ ${words[2,CURRENT-1]} "$PREFIX" 2>/dev/null)}")
    for line in ${lines[2,-1]}; do
        values+=("${line%%$tab*}")
        shown+=("${line/$tab/  }")
    done
    (( ${#values} )) && compadd -V reenact -l -d shown -a values
    if [[ ${lines[1]} == files ]]; then
        _files
    fi
}
(( ${+functions[compdef]} )) || { autoload -Uz compinit && compinit -i }
compdef _reenact reenact
"""

FISH: Final = r"""
function __reenact_complete
    set -l words (commandline -opc)
    set -l lines (env _REENACT_COMPLETE=fish @PROGRAM@ $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $lines) -gt 1
        printf '%s\n' $lines[2..-1]
    end
    if test "$lines[1]" = files
        __fish_complete_path (commandline -ct)
    end
end
complete -c reenact -f -a '(__reenact_complete)'
"""
