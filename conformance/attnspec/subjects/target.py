"""From a target to a subject: finds the function, and says clearly why it cannot."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from attnspec import adapters
from attnspec.core.declaration import Declaration, Variant
from attnspec.core.errors import AttnspecError, ManifestError, Place, TargetError, hint, near_misses
from attnspec.core.nouns import DType
from attnspec.numerics.precision import precision_of
from attnspec.spec.yaml_lines import Located, shown
from attnspec.subjects.declared import declaration_of
from attnspec.subjects.lifts.lift import lift_named, with_flushing
from attnspec.subjects.manifest import Library, Registered
from attnspec.subjects.outline import near_file, no_such_subject
from attnspec.subjects.signature import SOMEWHERE, place_of, signature_of
from attnspec.subjects.subject import Subject


def check_precision(declaration: Declaration, where: Place | None, error: type[AttnspecError] = ManifestError) -> None:
    """Raise `error` at the first precision class, of the subject or a variant, that makes no sense."""
    classes = [declaration.precision, *(variant.precision for variant in declaration.variants.values())]
    for precision in classes:
        for dtype, words in precision.items():
            try:
                precision_of(words, dtype)
            except ManifestError as cause:
                raise error(str(cause), where=_place_of(words, dtype) or where) from None


def _place_of(words: Mapping[str, object], dtype: DType) -> Place | None:
    """Where the first word stands that makes no sense by itself, else the class; None for what no file says."""
    if not isinstance(words, Located):
        return None
    for word, value in words.items():
        try:
            precision_of({"reason": "looked at by itself", word: value}, dtype)
        except ManifestError:
            return words.place_of(word)
    return words.place


M = TypeVar("M")
_FROM_FILE = "attnspec_target_"  # begins the name of a module that a path leads to, so that it hides no other


def load_bare(target: str, *, lift: str = "") -> Subject:
    """The function that `package.module:function` or `path/to/file.py:function` names. Raises TargetError."""
    module_name, _, name = target.rpartition(":")
    if not module_name or not name:
        raise no_such_subject(target, ())
    is_file = module_name.endswith(".py") or "/" in module_name or "\\" in module_name
    module = _from_file(Path(module_name)) if is_file else _from_path(module_name)
    function = _callable(_member(module, name, target), target)
    declaration = declaration_of(function, name, target=_importable(module, name))
    check_precision(declaration, _place_or_none(function), TargetError)
    declaration = replace(declaration, lift=lift or declaration.lift or _own_lift(function),
                          keywords=offered(declaration))
    library = Library(name=module_name, distribution=_distribution(module_name, is_file=is_file))
    hands_over = lift_named(declaration.lift)
    return Subject(target, _title(function, name), function, with_flushing(declaration, hands_over),
                   place_of(function), library, hands_over)


def _own_lift(function: Callable[..., object]) -> str:
    """A module of PyTorch takes tensors, whether it says so or not."""
    return "torch" if any(base.__module__ == "torch.nn.modules.module" for base in type(function).__mro__) else ""


def foreign(target: str) -> Callable[..., object]:
    """The function or class that `package.module:name` names, whatever it takes. Raises TargetError."""
    module_name, _, name = target.rpartition(":")
    if not module_name or not name or module_name.endswith(".py") or "/" in module_name:
        raise TargetError(f"{target!r} cannot be imported by name, as an adapter must. Write package.module:name.")
    member = _member(_from_path(module_name), name, target)
    if not callable(member):
        raise TargetError(f"{target!r} is {type(member).__name__} and cannot be called.")
    return member


def load_registered(registered: Registered, *, lift: str = "", folders: Iterable[Path] = ()) -> Subject:
    """The subject of a manifest with its variants. Raises TargetError (not installed, not loadable), ManifestError."""
    if registered.missing:
        raise TargetError(f"{registered.id} cannot be judged here: {registered.missing}", where=registered.where)
    check_precision(registered.declaration, registered.where)
    adapters.extend(folders)
    subject = _assembled(registered, registered.function, lift)
    variants = {name: _variant(registered, subject, variant, lift)
                for name, variant in registered.declaration.variants.items()}
    return replace(subject, variants=variants)


def _assembled(registered: Registered, function_name: str, lift: str) -> Subject:
    adapter, _, name = function_name.partition(":")
    module = _imported(f"attnspec.adapters.{registered.library.folder}.{adapter}", registered.where)
    function = _callable(_member(module, name, function_name), function_name)
    signature = signature_of(function, name, is_always_causal=registered.declaration.limits.causal_only)
    declaration = replace(registered.declaration, keywords=signature.keywords, defaults=signature.defaults,
                          lift=lift or registered.declaration.lift)
    if signature.kind is not declaration.kind:
        raise TargetError(f"{registered.id} is declared as kind {declaration.kind.value!r}, but {name} is of kind "
                          f"{signature.kind.value!r} by its parameters.", where=registered.where)
    declaration = replace(declaration, keywords=offered(declaration))
    return Subject(registered.id, registered.title, function, declaration, place_of(function), registered.library,
                   lift_named(declaration.lift), document=registered.document, note=registered.note,
                   entry=registered.where)


def _variant(registered: Registered, base: Subject, variant: Variant, lift: str) -> Subject:
    """The variant's function under the subject's declaration, with what the variant declares otherwise."""
    declared = base.declaration
    limits = replace(declared.limits, weights=variant.weights or declared.limits.weights)
    subject = _assembled(registered, variant.function, lift)
    taken = subject.declaration
    declaration = replace(declared, keywords=taken.keywords, defaults=taken.defaults, limits=limits,
                          conventions={**declared.conventions, **variant.conventions},
                          precision={**declared.precision, **variant.precision})
    return replace(subject, id=f"{base.id}[{variant.name}]", declaration=declaration)


def offered(declaration: Declaration) -> frozenset[str]:
    """The keywords that can be put to the subject: a mask too, where it travels as a bias."""
    travels = declaration.limits.bias_is_mask and "bias" in declaration.keywords
    return declaration.keywords | {"mask"} if travels else declaration.keywords


def _from_path(name: str) -> ModuleType:
    """The module of that name; the working directory comes first where it holds the top-level package."""
    top, here = name.partition(".")[0], Path.cwd()
    if ((here / top).is_dir() or (here / f"{top}.py").is_file()) and str(here) not in sys.path:
        sys.path.insert(0, str(here))
    importlib.invalidate_caches()
    return _imported(name, None)


def _from_file(path: Path) -> ModuleType:
    """The file as a module. Its own folder comes last on the path, so that it finds its siblings and hides nothing."""
    if not path.is_file():
        raise TargetError(f"there is no such file.{near_file(path)}", where=Place(str(path)))
    name = f"{_FROM_FILE}{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise TargetError("is no Python file; its name should end in .py.", where=Place(str(path)))
    if str(path.absolute().parent) not in sys.path:
        sys.path.append(str(path.absolute().parent))
    module = sys.modules[name] = importlib.util.module_from_spec(specification)
    loader = specification.loader
    _guarded(lambda: loader.exec_module(module), shown(path))
    return module


def _imported(name: str, where: Place | None) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise TargetError(f"{name!r} is no name of a module. Write package.module:function.", where=where)
    return _guarded(lambda: importlib.import_module(name), name)


def _guarded(load: Callable[[], M], name: str) -> M:
    """Run an import; what it raises becomes one line with the place, without a traceback."""
    try:
        return load()
    except ModuleNotFoundError as missing:
        raise TargetError(_not_found(missing, name)) from None
    except SyntaxError as wrong:
        place = Place(shown(Path(wrong.filename or name)), wrong.lineno or 0)
        raise TargetError(f"{name!r} is no valid Python: {wrong.msg}.", where=place) from None
    except (Exception, SystemExit) as raised:  # the module's own code may raise anything
        raise TargetError(f"importing {name!r} raises {traceback.format_exception_only(raised)[-1].strip()}",
                          where=_raised_at(raised)) from None


def _not_found(missing: ModuleNotFoundError, name: str) -> str:
    absent = missing.name or str(missing)
    if name == absent or name.startswith(f"{absent}."):
        parent = absent.rpartition(".")[0]
        siblings = _submodules(parent) if parent in sys.modules else _top_level()
        return f"there is no module {absent!r}.{hint(absent.rpartition('.')[2], siblings)}"
    return f"importing {name!r} needs {absent!r}, which is not installed. Install it: pip install {absent}"


def _raised_at(raised: BaseException) -> Place | None:
    frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if not frame.filename.startswith("<frozen")]
    return Place(shown(Path(frames[-1].filename)), frames[-1].lineno or 0) if frames else None


def _submodules(package: str) -> Iterator[str]:
    modules = pkgutil.iter_modules(getattr(sys.modules[package], "__path__", []))
    return (module.name for module in modules if not module.name.startswith("_"))


def _top_level() -> list[str]:
    """The modules of the working directory: what a user most likely meant."""
    return [module.name for module in pkgutil.iter_modules([str(Path.cwd())])]


def _member(module: ModuleType, name: str, target: str) -> object:
    value: object = module
    for part in name.split("."):
        if not hasattr(value, part):
            file = getattr(module, "__file__", None)
            raise TargetError(f"there is no {part!r} in it (target {target!r}).{_near(part, value)}",
                              where=Place(shown(Path(file)) if file else module.__name__))
        value = getattr(value, part)
    return value


def _near(name: str, value: object) -> str:
    """A hint: the nearest public callable of a module or class, or those that it defines itself."""
    members = getattr(value, "__dict__", {})
    public = {each: member for each, member in members.items() if callable(member) and not each.startswith("_")}
    home = getattr(value, "__module__", "") or getattr(value, "__name__", "")
    own = [each for each, member in public.items() if getattr(member, "__module__", "") == home]
    return hint(name, public if near_misses(name, list(public)) else own)


def _callable(value: object, target: str) -> Callable[..., object]:
    if isinstance(value, type):
        raise TargetError(f"{target!r} is a class. Name a function, or a module-level instance that can be called: "
                          f"attend = {value.__name__}(...); or let an adapter be written: "
                          f"attnspec init {_of_class(value)}", where=_place_or_none(value))
    if not callable(value):
        raise TargetError(f"{target!r} is {type(value).__name__} and cannot be called; a function is expected: "
                          "attend(query, key, value, *, ...).")
    return value


def _of_class(value: type) -> str:
    module = sys.modules.get(value.__module__)
    return _importable(module, value.__qualname__) if module else SOMEWHERE


def importable(target: str) -> str:
    """A bare target that is loaded, as `attnspec init` wants it; else what stands for one."""
    module_name, _, name = target.rpartition(":")
    module = sys.modules.get(module_name) or sys.modules.get(f"{_FROM_FILE}{Path(module_name).stem}")
    return _importable(module, name) if module else SOMEWHERE


def _importable(module: ModuleType, name: str) -> str:
    """The target as it can be imported by name, which is what `attnspec init` asks for; else what stands for one."""
    file = getattr(module, "__file__", None)
    if not file:  # in memory only
        return SOMEWHERE
    if not module.__name__.startswith(_FROM_FILE):
        return f"{module.__name__}:{name}"
    path = Path(shown(Path(file))).with_suffix("")
    return f"{'.'.join(path.parts)}:{name}" if all(part.isidentifier() for part in path.parts) else SOMEWHERE


def _place_or_none(value: Callable[..., object]) -> Place | None:
    place = place_of(value)
    return place if place.file else None


def _title(function: Callable[..., object], name: str) -> str:
    """The first line of the docstring of a function; an object's docstring is its class's, and says nothing."""
    documented = (function.__doc__ or "") if hasattr(function, "__code__") else ""
    return documented.strip().partition("\n")[0] or name


def _distribution(module: str, *, is_file: bool) -> str:
    """The distribution that installed the module, if one did."""
    if is_file:
        return ""
    top = module.partition(".")[0]
    return next(iter(importlib.metadata.packages_distributions().get(top, ())), "")
