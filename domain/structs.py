"""Base classes of frozen structs, so that each struct need not declare `frozen` itself.

Type checkers take `frozen` from `dataclass_transform`, of the class or, if they look there first, of the metaclass; at
run time msgspec's options are inherited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, dataclass_transform

import msgspec

if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
    class _Frozen(msgspec.StructMeta): ...

    @dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
    class _FrozenByName(msgspec.StructMeta): ...

else:
    _Frozen = _FrozenByName = msgspec.StructMeta


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True, gc=False, metaclass=_Frozen):
    """A frozen value. The garbage collector does not track it unless it declares `gc=True`: it is in no cycle."""


class Fact(Frozen, array_like=True):
    """An event as it is stored in the log: an array of its fields in order, without their names."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class FrozenByName(msgspec.Struct, frozen=True, gc=False, metaclass=_FrozenByName):
    """A frozen value whose fields are given by keyword; apart from that, the same as `Frozen`."""
