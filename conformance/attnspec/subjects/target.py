"""From a target to a subject: has its function loaded, in its own process or in this one, and says clearly why it
cannot be had.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from attnspec.core import paths
from attnspec.core.declaration import Declaration, Variant
from attnspec.core.errors import EndedError, ImportingError, MissingNameError, TargetError
from attnspec.core.forms import EVERY_KEYWORD, InputForm
from attnspec.core.keyword import BACKWARD, GRAD
from attnspec.core.nouns import DType, Kind
from attnspec.core.plan import HANDED
from attnspec.core.surroundings import Surroundings, kind_of
from attnspec.host import loading
from attnspec.hosting.client import Client, HostDied, LoadedFunction, NotLoadedThere, client_of, import_folders
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.attributes import check_precision, check_width, declaration_of
from attnspec.subjects.call import backward_of
from attnspec.subjects.callee import Callee, InProcess, check_lift, hosted_function
from attnspec.subjects.declared import lacks_parameter
from attnspec.subjects.exceptions import not_callable, not_ended, not_loaded, not_with_this_release
from attnspec.subjects.installed import distribution_of
from attnspec.subjects.manifest import Library, Registered
from attnspec.subjects.outline import importable_by_name, keywords_given_by, no_such_subject
from attnspec.subjects.signature import (
    UNKNOWN_PLACE,
    FunctionDescription,
    describe_function,
    read_description,
    signature_of,
)
from attnspec.subjects.subject import Subject


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """Tells where a function comes from: a module of that name, or the one in a file; and its name there.

    is_program: whether a program has it, which is named in the place of the module.  text: that of a module which no
    file holds.  backward: the name of its backward pass in the same module, where that is told.
    """

    module: str
    name: str
    file: str = ""
    is_program: bool = False
    text: str = ""
    backward: str = ""

    @classmethod
    def from_target(cls, target: str) -> FunctionSource:
        """`package.module:function` or `path/to/file.py:function`. Raises TargetError."""
        module, _, name = target.rpartition(":")
        if not module or not name:
            raise no_such_subject(target, ())
        if module.endswith(".py") or "/" in module or "\\" in module:
            return cls(module, name, str(Path(module).absolute()))
        if not all(part.isidentifier() for part in module.split(".")):
            raise TargetError(f"{module!r} is not a module name. Write package.module:function.")
        return cls(module, name)

    @classmethod
    def from_manifest(cls, library: Library, function: str) -> FunctionSource:
        """The function of a manifest: `adapter:name`, or what the library's program calls it."""
        if library.program:
            return cls(library.folder, function, is_program=True)
        adapter, _, name = function.partition(":")
        return cls(f"{loading.ADAPTER_PACKAGE}.{library.folder}.{adapter}", name)

    @property
    def header(self) -> Mapping[str, Any]:
        """What a host is told of the function's source."""
        if self.is_program:
            return {}
        if self.text:
            return {"text": self.text}
        return {**({"file": self.file} if self.file else {"module": self.module}),
                "first": [str(Path.cwd())]}

    @property
    def header_elsewhere(self) -> Mapping[str, Any]:
        """What a host is told that does not see this machine's files."""
        if self.text:
            return self.header
        return {"file": Path(self.file).name} if self.file else {"module": self.module, "first": []}

    @property
    def importable(self) -> str:
        """As `attnspec init` wants it; what stands for it where no import finds it."""
        if self.module == HANDED:
            return UNKNOWN_PLACE
        if not self.file:
            return f"{self.module}:{self.name}"
        return importable_by_name(Path(self.file), self.name)


def _shown_file(file: str) -> str:
    """The path of a file as messages have it; empty for none."""
    return shown_path(Path(file)) if file else ""


@dataclass(frozen=True, slots=True)
class FoundFunction:
    """A function that was found: what is known of it, and how it is called once its lift is known.

    backward: what is known of the function beside it that has the name of its backward pass.
    """

    description: FunctionDescription
    make_callee: Callable[[str], Callee]
    versions: Mapping[str, str]
    backward: FunctionDescription | None = None


def load_in_host(source: FunctionSource, target: str, client: Client,
                 versions: Iterable[str] = ()) -> FoundFunction:
    """The function in its own process."""
    loaded = describe_loaded(source, target, client, versions)
    described = _read_description(loaded.description, source.name)
    backward = None if loaded.backward is None else _read_description(loaded.backward, source.name + BACKWARD)
    return FoundFunction(described, lambda lift: hosted_function(client, loaded.number, lift),
                         loaded.versions,
                         backward)


def describe_loaded(source: FunctionSource, target: str, client: Client,
                    versions: Iterable[str] = ()) -> LoadedFunction:
    """What the client tells of a callable that it has loaded. Raises TargetError."""
    client.begin_item()
    try:
        where = source.header if client.surroundings.is_here else source.header_elsewhere
        named = {"backward": source.backward} if source.backward else {}
        return client.load({"from": where, "name": source.name, "versions": list(versions), **named})
    except NotLoadedThere as cause:
        raise not_loaded(cause.details, _shown_file(source.file) or source.module, target) from None
    except HostDied as died:
        raise EndedError(not_ended(f"importing {source.module!r}", died.death, client.surroundings.deadline)) from None


def _read_description(told: Mapping[str, Any], name: str) -> FunctionDescription:
    """What a host tells of a function, if it is in order. Raises TargetError."""
    try:
        return read_description(told)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise TargetError(f"the host does not describe {name!r} as docs/protocol.md says: {wrong!r}.") from None


def in_process(source: FunctionSource, target: str) -> FoundFunction:
    """The function in this process."""
    try:
        function, backward = loading.load_with_backward(source.header, source.name, source.backward)
    except loading.NotLoaded as cause:
        raise not_loaded(cause.details, _shown_file(source.file) or source.module, target) from None
    beside = None if backward is None else describe_function(backward)
    return FoundFunction(describe_function(function), lambda lift: InProcess(function, lift, backward), {}, beside)


def load_bare(target: str, surroundings: Surroundings | None = None, *, lift: str = "") -> Subject:
    """The function that `package.module:function` or `path/to/file.py:function` names, in a process of its own with
    these surroundings; without any, in this process. Raises TargetError.
    """
    source = FunctionSource.from_target(target)
    is_here = surroundings is None or source.module == HANDED
    client = None if is_here or surroundings is None else _start_client(target, surroundings)
    return _make_bare_subject(source, target,
                              load_in_host(source, target, client) if client else in_process(source, target), lift)


def load_text(text: str, name: str, client: Client, *, lift: str) -> Subject:
    """The function of this name in a module of this text, which no file holds, in the process of the client.

    Raises TargetError.
    """
    source = FunctionSource("adapter", name, text=text)
    return _make_bare_subject(source, f"adapter:{name}", load_in_host(source, name, client), lift)


def host_of(target: str, surroundings: Surroundings, folder: str = "") -> Client:
    """A process for the module of `package.module:name` alone, which finds it where the user stands, and elsewhere.

    folder: where it is found before all others.
    """
    if not surroundings.is_here:
        return Client(surroundings, files=python_files(Path(folder)) if folder else read_files(target, ()))
    first = [folder] if folder else _module_folders(target)
    return Client(surroundings, path=[*first, *(import_folders() if _is_same(surroundings) else ())])


def _module_folders(target: str) -> list[str]:
    """The working directory, if the module lies there."""
    top = Path(target.partition(":")[0].partition(".")[0])
    return [str(Path.cwd())] if top.is_dir() or top.with_suffix(".py").is_file() else []


def _is_same(surroundings: Surroundings) -> bool:
    """Whether it is the interpreter of this process."""
    return surroundings.command in ((), (sys.executable,))


def _make_bare_subject(source: FunctionSource, target: str, found: FoundFunction,
                       lift: str) -> Subject:
    """What is known of a function as a subject with that lift."""
    described = found.description
    if not described.is_callable or described.is_class:
        raise not_callable(described, target,
                           FunctionSource(described.module, described.qualname, source.file).importable)
    declaration = declaration_of(described, source.name, target=source.importable)
    check_precision(declaration, described.where, TargetError)
    check_width(declaration, described.where, TargetError)
    own = "torch" if described.is_module_of_torch else ""  # it takes tensors, whether it says so or not
    declaration = replace(declaration, lift=lift or declaration.lift or own,
                          keywords=list_offered_keywords(declaration))
    check_lift(declaration.lift)
    callee = found.make_callee(declaration.lift)
    library = Library(name=source.module, distribution=_find_distribution(source))
    # an object's docstring is its class's, and says nothing
    title = (described.doc if described.is_function else "") or source.name
    subject = Subject(target, title, callee, _as_machine_is(declaration, callee),
                      described.place, library, description=described)
    return _with_backward(subject, found, source.name + BACKWARD)


def _with_backward(subject: Subject, found: FoundFunction, name: str, *,
                   is_named: bool = False) -> Subject:
    """The subject, which takes gradients of its output where a backward pass of this name stands beside it."""
    declared = subject.declaration
    backward = backward_of(found.backward, name, declared.kind, is_named=is_named)
    if backward is None or declared.kind is Kind.ROTARY or declared.form is not InputForm.DENSE:
        return subject
    return replace(subject, backward=backward, declaration=replace(declared, keywords=declared.keywords | {GRAD}))


def begin_target(target: str, surroundings: Surroundings, known: Registered | None = None,
                 folders: Iterable[Path] = ()) -> None:
    """Start the process of a target's host, which imports NumPy until it is asked. What is wrong, `load` tells.

    known: what its manifest says, if it has one.
    """
    if known:
        _start_client(target, _find_surroundings(known, surroundings), tuple(folders)).begin()
    else:
        _start_client(target, surroundings).begin()


Asked = TypeVar("Asked", bound=Surroundings | None)


def _find_surroundings(registered: Registered, surroundings: Asked) -> Surroundings | Asked:
    """Where the subjects of a manifest live: with the program or the interpreter that it names, or where is said."""
    home = registered.library.program or registered.library.interpreter
    return home.surroundings(surroundings) if home else surroundings


def _start_client(key: str, surroundings: Surroundings, folders: Iterable[Path] = ()) -> Client:
    """The host of a subject: it imports from where this process does, if it has the same interpreter and files."""
    adapters = tuple(folder.absolute() for folder in (paths.folder("implementations"), *folders))

    def make_client() -> Client:
        if not surroundings.is_here:
            return Client(surroundings, adapters=adapter_folders(adapters),
                          files=read_files(key, adapters))
        path = import_folders() if _is_same(surroundings) else ()
        return Client(surroundings, path=path, adapters=list(map(str, adapters)))

    return client_of((key, repr(surroundings), adapters), make_client)


def _as_machine_is(declaration: Declaration, callee: Callee) -> Declaration:
    """The declaration, with what holds where the function lives: dtypes that cannot be handed over there, and, where
    nothing is said of subnormals, what its framework does with them.
    """
    taken = _drop_untakeable(declaration, callee)
    return replace(taken, precision={**taken.precision, **dict(_list_flushing(taken, callee))})


def _list_flushing(declaration: Declaration, callee: Callee) -> Iterable[tuple[DType, Any]]:
    for dtype in declaration.dtypes:
        said = declaration.precision.get(dtype, {})
        if "flushes_subnormals" not in said and (operation := callee.find_flushing_operation(dtype)):
            reason = f"here {declaration.lift} treats subnormal numbers as 0 in {operation}"
            yield dtype, {"flushes_subnormals": True, "reason": reason, **said}


def load_registered(registered: Registered, surroundings: Surroundings | None = None, *,
                    lift: str = "",
                    folders: Iterable[Path] = ()) -> Subject:
    """The subject of a manifest with its variants, in a process of its own with these surroundings; without any, in
    this process. Raises TargetError (not installed, not loadable), ManifestError.
    """
    if registered.why_missing:
        raise TargetError(f"{registered.id} cannot be judged here: {registered.why_missing}",
                          where=registered.where)
    check_precision(registered.declaration, registered.where)
    registered = registered.as_installed
    folders = tuple(folders)
    surroundings = _find_surroundings(registered, surroundings)
    client = _start_client(registered.id, surroundings, folders) if surroundings else None
    if client is None:
        loading.extend_adapters([str(folder.absolute()) for folder in (paths.folder("implementations"), *folders)])

    def assemble(function: str) -> Subject:
        return _assemble_subject(registered, function, lift, client)

    subject = assemble(registered.function)
    variants = {name: _make_variant(subject, variant, assemble(variant.function))
                for name, variant in registered.declaration.variants.items()}
    return replace(subject, variants=variants)


def _left_at_defaults(registered: Registered, function_name: str) -> dict[str, str]:
    """The parameters that the manifest says are given nothing, but for those that the adapter hands on meanwhile."""
    defaults = registered.declaration.defaults
    if not defaults:
        return {}
    adapter, _, function = function_name.partition(":")
    given = keywords_given_by(Path(registered.where.file).parent / f"{adapter}.py", function)
    return {name: default for name, default in defaults.items() if name not in given}


def _assemble_subject(registered: Registered, function_name: str, lift: str,
                      client: Client | None) -> Subject:
    library = registered.library
    own = registered.backward if function_name == registered.function else ""
    source = replace(FunctionSource.from_manifest(library, function_name), backward=own)
    try:
        versions = (library.distribution,)
        found = load_in_host(source, function_name, client, versions) if client else in_process(source, function_name)
    except ImportingError as cause:
        raise (not_with_this_release(registered.id, library, str(cause)) if library.version else cause) from None
    except MissingNameError as cause:
        raise TargetError(str(cause), where=registered.where) from None
    described = found.description
    if not described.is_callable or described.is_class:
        raise not_callable(described, function_name, UNKNOWN_PLACE)
    signature = signature_of(described, source.name, is_always_causal=registered.declaration.limits.causal_only)
    left = _left_at_defaults(registered, function_name)
    unknown = _with_version(library, found).unknown
    claims = _without_promises(registered.declaration.claims, unknown)
    declaration = replace(registered.declaration, keywords=signature.keywords - unknown,
                          claims=claims,
                          defaults={**left, **signature.defaults},
                          off=signature.off, spelled=signature.spelled, form=signature.form,
                          given=signature.given,
                          lift=lift or registered.declaration.lift)
    if signature.kind is not declaration.kind:
        raise TargetError(f"{registered.id} is declared as kind {declaration.kind.value!r}, but {source.name} is of "
                          f"kind {signature.kind.value!r} by its parameters.", where=registered.where)
    if wrong := lacks_parameter(declaration.limits, signature.keywords, source.name):
        raise TargetError(f"{registered.id} cannot be judged: {wrong}", where=registered.where)
    check_lift(declaration.lift)
    callee = found.make_callee(declaration.lift)
    declaration = _drop_untakeable(replace(declaration, keywords=list_offered_keywords(declaration),
                                           precision=declaration.precision_there(_device_of(callee))), callee)
    subject = Subject(registered.id, registered.title, callee, declaration, described.place,
                      _with_version(library, found), document=registered.document,
                      note=registered.note,
                      entry=registered.where, description=described)
    return _with_backward(subject, found, own or source.name + BACKWARD, is_named=bool(own))


def _without_promises(claims: tuple[str, ...], unknown: frozenset[str]) -> tuple[str, ...]:
    """The profiles that a release can keep which does not know these keywords."""
    broken = {EVERY_KEYWORD[name].profile for name in unknown}
    return tuple(claim for claim in claims if claim not in broken)


def _with_version(library: Library, found: FoundFunction) -> Library:
    """The library as its program tells; a Python's distributions are looked up, see `installed`. Raises TargetError."""
    told = replace(library, told_version=found.versions.get(library.distribution, "")) if library.program else library
    if told.why_unfit:
        raise TargetError(f"{library.folder} cannot be judged here: {told.why_unfit}")
    return told


def _drop_untakeable(declaration: Declaration, callee: Callee) -> Declaration:
    """Without the dtypes that cannot be handed over where the function lives. What it flushes its manifest says."""
    left_out = {dtype: reason for dtype in declaration.dtypes if (reason := callee.why_not_taken(dtype))}
    return replace(declaration, dtypes=tuple(dtype for dtype in declaration.dtypes if dtype not in left_out),
                   left_out={**declaration.left_out, **left_out})


def _make_variant(base: Subject, variant: Variant, subject: Subject) -> Subject:
    """The variant's function under the subject's declaration, with what the variant declares otherwise."""
    declared = base.declaration
    limits = replace(declared.limits, weights=variant.weights or declared.limits.weights)
    taken = subject.declaration
    declaration = replace(declared, keywords=taken.keywords, defaults=taken.defaults,
                          off=taken.off, spelled=taken.spelled, limits=limits,
                          conventions={**declared.conventions, **variant.conventions},
                          precision={**declared.precision, **variant.precision,
                                     **variant.precision_on.get(_device_of(subject.callee), {})})
    return replace(subject, id=f"{base.id}[{variant.name}]", declaration=declaration)


def _device_of(callee: Callee) -> str:
    """The kind of device on which its arrays are placed."""
    return kind_of(callee.place.get("device", ""))


def list_offered_keywords(declaration: Declaration) -> frozenset[str]:
    """The keywords that can be put to the subject: a mask too, where it travels as a bias."""
    travels = declaration.limits.bias_is_mask and "bias" in declaration.keywords
    return declaration.keywords | {"mask"} if travels else declaration.keywords


def importable_name(target: str) -> str:
    """A bare target as `attnspec init` wants it; else what stands for one."""
    return FunctionSource.from_target(target).importable


def _find_distribution(source: FunctionSource) -> str:
    """The distribution that installed the module, if one did."""
    if source.file or source.text:
        return ""
    return distribution_of(source.module.partition(".")[0])


# What is handed over to a host that does not see the files of this machine


MOST_BYTES = 2**23
"""Bytes of Python that are handed over at most: a folder that holds more is no folder of one's own code."""

_LEFT_OUT_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "findings", "build", "dist", "reports"})


def read_files(target: str, adapters: Sequence[Path]) -> Mapping[str, str]:
    """Reads the files that a target may import: by the name that each gets there, its text.

    Of `path/to/file.py:function` its folder; of `package.module:function` the package, or the module and what stands
    beside it, if it lies in the working directory (what does not has to be installed over there); of a registered
    subject every adapter. Raises TargetError where that is too much.
    """
    module = target.rpartition(":")[0]
    if not module:
        return {f"{name}/{file}": text for name, folder in zip(adapter_folders(adapters), adapters, strict=True)
                for file, text in _list_files(folder)}
    if module.endswith(".py") or "/" in module:
        return python_files(Path(module).absolute().parent)
    top = module.partition(".")[0]
    if Path(top).is_dir():
        return {f"{top}/{file}": text for file, text in _list_files(Path(top).absolute())}
    return python_files(Path.cwd()) if Path(f"{top}.py").is_file() else {}


def python_files(folder: Path) -> Mapping[str, str]:
    """Reads the Python files of a folder: by the path in it, each one's text. Raises TargetError where that is too
    much.
    """
    return dict(_list_files(folder))


def adapter_folders(adapters: Sequence[Path]) -> list[str]:
    """What the folders of adapters are called over there."""
    return [f"adapters{number}" for number, _ in enumerate(adapters)]


def _list_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Python files below the folder, by their path in it."""
    handed = 0
    for path in sorted(_read_python(folder)):
        handed += path.stat().st_size
        if handed > MOST_BYTES:
            raise TargetError(f"{shown_path(folder)} holds more than {MOST_BYTES // 2**20} MiB of Python, too much to "
                              "send. Put the function into a folder of its own, or install its package there.")
        yield path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8", errors="replace")


def _read_python(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in _LEFT_OUT_FOLDERS or (path / "pyvenv.cfg").exists():
            continue
        if path.is_dir():
            yield from _read_python(path)
        elif path.suffix == ".py":
            yield path
