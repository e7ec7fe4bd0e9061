"""The built-in deny list: destructive calls that are hardly ever intended, found by the usual names of parameters.

It is advisory. The same effect can be written in other ways, and what a program does by itself is not seen: only a
sandbox protects a system. The list stops a model's obvious mistakes, and tells the model why.
"""

from __future__ import annotations

from typing import Final

from reenact.domain.policy.matchers import Matcher, command, glob, path
from reenact.domain.policy.rules import Entry

COMMAND_PARAMETERS = (
    "command",
    "commands",
    "cmd",
    "command_line",
    "commandLine",
    "shell_command",
    "shellCommand",
    "shell",
    "bash",
    "script",
)
"""The usual names of parameters that hold commands."""

PATH_PARAMETERS = (
    "path",
    "paths",
    "file",
    "files",
    "file_path",
    "filePath",
    "filepath",
    "filename",
    "file_name",
    "target_file",
    "targetFile",
    "notebook_path",
    "dest",
    "destination",
    "target",
    "output_path",
)
"""The usual names of parameters that hold paths."""

_COMMANDS = "|".join(COMMAND_PARAMETERS)
_PATHS = "|".join(PATH_PARAMETERS)
_WRITING = "*{[Ww]rite,[Ee]dit,[Cc]reate,[Aa]ppend,[Rr]eplace,[Pp]atch,[Ss]ave,[Mm]ove,[Rr]ename,[Rr]emove,[Dd]elete}*"
"""The names of tools that change files."""

_HOMES = "{~,/root,/home/*,/Users/*}"
_SYSTEM = "{/bin,/boot,/dev,/etc,/lib,/lib64,/proc,/sbin,/sys,/usr,/var,/System,/Library}"
_ACCOUNTS = "/etc/{passwd,shadow,gshadow,group,sudoers,sudoers.d/*,crontab,ld.so.preload,pam.d/*,ssh/*}"
_STARTING = "{.bashrc,.bash_profile,.bash_login,.profile,.zshrc,.zshenv,.zprofile,.ssh/authorized_keys,.ssh/config}"
_DISKS = "/dev/{sd*,hd*,vd*,xvd*,nvme*,mmcblk*,disk*,mapper/*}"
_DOWNLOADS = "{curl,wget,fetch,base64,xxd}"
_SHELLS = "{sh,ash,bash,dash,fish,ksh,zsh,source,.,eval}"
_READERS = "{awk,base64,cat,cp,curl,dd,grep,head,install,less,more,mv,nano,rsync,scp,sed,tail,tar,tee,vi,vim,xxd}"


def _deny_command(matcher: Matcher, reason: str) -> Entry:
    return Entry(tool="*", when={_COMMANDS: matcher}, reason=reason, advisory=True)


def _deny_path(pattern: str, reason: str, *, tool: str = "*") -> Entry:
    return Entry(tool=tool, when={_PATHS: path(pattern)}, reason=reason, advisory=True)


BUILT_IN_DENY_LIST: Final[tuple[Entry, ...]] = (
    _deny_command(command(rf"rm {{-r,-R,--recursive}} {{/,/\*,{_SYSTEM}{{,/\*}}}}"), "it deletes the system"),
    _deny_command(
        command(rf"rm {{-r,-R,--recursive}} {{/home,/Users,{_HOMES}}}{{,/\*}}"), "it deletes a home directory"
    ),
    _deny_command(
        command(f"{{chmod,chown,chgrp}} {{-R,--recursive}} {{/,{_SYSTEM}}}"), "it changes who may use the system"
    ),
    _deny_command(
        command("{mkfs,mkfs.{bfs,btrfs,exfat,ext2,ext3,ext4,f2fs,fat,minix,ntfs,vfat,xfs},mke2fs,mkswap,wipefs}"),
        "it overwrites a file system",
    ),
    _deny_command(command(f"dd of={_DISKS}"), "it overwrites a disk"),
    _deny_command(command(f"{{>,tee,shred}} {_DISKS}"), "it overwrites a disk"),
    _deny_command(command("{shutdown,reboot,halt,poweroff}"), "it stops the machine"),
    _deny_command(command("systemctl {halt,kexec,poweroff,reboot}"), "it stops the machine"),
    _deny_command(command("{init,telinit} {0,6}"), "it stops the machine"),
    _deny_command(command(f"{_DOWNLOADS} | {_SHELLS}"), "it runs what nobody has read"),
    _deny_command(glob("*:()*{*:*|*:*&*}*"), "it is a fork bomb"),
    _deny_command(command(f"{_READERS} /etc/{{shadow,gshadow}}"), "it reads the passwords of the system"),
    _deny_command(command(f"{{>,tee,truncate,rm,mv}} {_ACCOUNTS}"), "it changes who may use the system"),
    _deny_command(
        command(f"{{>,tee,truncate,rm,mv}} {_HOMES}/{_STARTING}"), "it changes what runs when somebody logs in"
    ),
    _deny_command(command("{>,tee} **/.git/hooks/**"), "it changes what runs when somebody commits"),
    _deny_path("/etc/{shadow,gshadow}", "it holds the passwords of the system"),
    _deny_path(f"{_HOMES}/.ssh/id_{{rsa,dsa,ecdsa,ed25519}}", "it is a private key"),
    _deny_path(_ACCOUNTS, "it says who may use the system", tool=_WRITING),
    _deny_path(f"{_HOMES}/{_STARTING}", "it runs when somebody logs in", tool=_WRITING),
    _deny_path("**/.git/hooks/**", "it runs when somebody commits", tool=_WRITING),
    _deny_path("/{bin,boot,lib,lib64,sbin,usr/bin,usr/lib,usr/sbin}/**", "it belongs to the system", tool=_WRITING),
)
"""The default of `Policies.deny`: `(*BUILT_IN_DENY_LIST, …)` extends it, `()` disables it."""
