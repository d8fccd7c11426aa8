"""Makes a subject of a target: loads its function, and says clearly why it cannot be had.

The function lives in a process of its own, or in this one.
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
    """Tells where a function comes from: a module or a file, and its name there.

    is_program: whether a program has it, which stands in the place of the module.  text: that of a
    module without a file.  backward: the name of its backward pass in the same module, where that
    is told.
    """

    module: str
    name: str
    file: str = ""
    is_program: bool = False
    text: str = ""
    backward: str = ""

    @classmethod
    def from_target(cls, target: str) -> FunctionSource:
        """Parses `package.module:function` or `path/to/file.py:function`. Raises TargetError."""
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
        """Returns the source of a manifest's `adapter:name`, or of a program's name."""
        if library.program:
            return cls(library.folder, function, is_program=True)
        adapter, _, name = function.partition(":")
        return cls(f"{loading.ADAPTER_PACKAGE}.{library.folder}.{adapter}", name)

    @property
    def header(self) -> Mapping[str, Any]:
        """Returns what a host is told of the function's source."""
        if self.is_program:
            return {}
        if self.text:
            return {"text": self.text}
        return {**({"file": self.file} if self.file else {"module": self.module}),
                "first": [str(Path.cwd())]}

    @property
    def header_elsewhere(self) -> Mapping[str, Any]:
        """Returns what a host is told that does not see this machine's files."""
        if self.text:
            return self.header
        if self.file:
            return {"file": Path(self.file).name}
        return {"module": self.module, "first": []}

    @property
    def importable(self) -> str:
        """Returns the target for `attnspec init`; a stand-in where no import finds it."""
        if self.module == HANDED:
            return UNKNOWN_PLACE
        if not self.file:
            return f"{self.module}:{self.name}"
        return importable_by_name(Path(self.file), self.name)


def _shown_file(file: str) -> str:
    """Returns the path of a file as messages have it; empty for none."""
    return shown_path(Path(file)) if file else ""


@dataclass(frozen=True, slots=True)
class FoundFunction:
    """A function that was found: what is known of it, and what makes its callee, given a lift.

    backward: what is known of the function beside it that has the name of its backward pass.
    """

    description: FunctionDescription
    make_callee: Callable[[str], Callee]
    versions: Mapping[str, str]
    backward: FunctionDescription | None = None


def load_in_host(source: FunctionSource, target: str, client: Client,
                 versions: Iterable[str] = ()) -> FoundFunction:
    """Loads the function in its own process."""
    loaded = describe_loaded(source, target, client, versions)
    described = _read_description(loaded.description, source.name)
    backward = None
    if loaded.backward is not None:
        backward = _read_description(loaded.backward, source.name + BACKWARD)
    return FoundFunction(described, lambda lift: hosted_function(client, loaded.number, lift),
                         loaded.versions, backward)


def describe_loaded(source: FunctionSource, target: str, client: Client,
                    versions: Iterable[str] = ()) -> LoadedFunction:
    """Loads a callable by the client and describes it. Raises TargetError."""
    client.begin_item()
    try:
        where = source.header if client.surroundings.is_here else source.header_elsewhere
        named = {"backward": source.backward} if source.backward else {}
        return client.load({"from": where, "name": source.name, "versions": list(versions),
                            **named})
    except NotLoadedThere as cause:
        raise not_loaded(cause.details, _shown_file(source.file) or source.module, target) from None
    except HostDied as died:
        ended = not_ended(f"importing {source.module!r}", died.death, client.surroundings.deadline)
        raise EndedError(ended) from None


def _read_description(told: Mapping[str, Any], name: str) -> FunctionDescription:
    """Reads a host's description of a function. Raises TargetError."""
    try:
        return read_description(told)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        raise TargetError(f"the host does not describe {name!r} as docs/protocol.md says: "
                          f"{wrong!r}.") from None


def in_process(source: FunctionSource, target: str) -> FoundFunction:
    """Loads the function in this process."""
    try:
        function, backward = loading.load_with_backward(source.header, source.name, source.backward)
    except loading.NotLoaded as cause:
        raise not_loaded(cause.details, _shown_file(source.file) or source.module, target) from None
    beside = None if backward is None else describe_function(backward)
    return FoundFunction(describe_function(function),
                         lambda lift: InProcess(function, lift, backward), {}, beside)


def load_bare(target: str, surroundings: Surroundings | None = None, *, lift: str = "") -> Subject:
    """Loads the function that `package.module:function` or `path/to/file.py:function` names, in a
    process with these surroundings; without any, in this one. Raises TargetError.
    """
    source = FunctionSource.from_target(target)
    if surroundings is None or source.module == HANDED:
        found = in_process(source, target)
    else:
        found = load_in_host(source, target, _start_client(target, surroundings))
    return _make_bare_subject(source, target, found, lift)


def load_text(text: str, name: str, client: Client, *, lift: str) -> Subject:
    """Loads the function of this name from a text, in the client's process. Raises TargetError."""
    source = FunctionSource("adapter", name, text=text)
    return _make_bare_subject(source, f"adapter:{name}", load_in_host(source, name, client), lift)


def host_of(target: str, surroundings: Surroundings, folder: str = "") -> Client:
    """Makes a process for the module of `package.module:name`, which finds it where the user
    stands.  folder: where it is found before all others.
    """
    if not surroundings.is_here:
        files = python_files(Path(folder)) if folder else read_files(target, ())
        return Client(surroundings, files=files)
    first = [folder] if folder else _module_folders(target)
    return Client(surroundings, path=[*first, *(import_folders() if _is_same(surroundings) else ())])


def _module_folders(target: str) -> list[str]:
    """Returns the working directory, if the module lies there."""
    top = Path(target.partition(":")[0].partition(".")[0])
    return [str(Path.cwd())] if top.is_dir() or top.with_suffix(".py").is_file() else []


def _is_same(surroundings: Surroundings) -> bool:
    """Says whether it is the interpreter of this process."""
    return surroundings.command in ((), (sys.executable,))


def _make_bare_subject(source: FunctionSource, target: str, found: FoundFunction,
                       lift: str) -> Subject:
    described = found.description
    if not described.is_callable or described.is_class:
        named = FunctionSource(described.module, described.qualname, source.file)
        raise not_callable(described, target, named.importable)
    declaration = declaration_of(described, source.name, target=source.importable)
    check_precision(declaration, described.where, TargetError)
    check_width(declaration, described.where, TargetError)
    # a module of PyTorch takes tensors, whether it says so or not
    own = "torch" if described.is_module_of_torch else ""
    declaration = replace(declaration, lift=lift or declaration.lift or own,
                          keywords=list_offered_keywords(declaration))
    check_lift(declaration.lift)
    callee = found.make_callee(declaration.lift)
    declaration = _drop_untakeable(declaration, callee)
    flushing = dict(_list_flushing(declaration, callee))
    declaration = replace(declaration, precision={**declaration.precision, **flushing})
    library = Library(name=source.module)
    if not source.file and not source.text:
        distribution = distribution_of(source.module.partition(".")[0])
        library = replace(library, distribution=distribution)
    # an object's docstring is its class's, and says nothing
    title = (described.doc if described.is_function else "") or source.name
    subject = Subject(target, title, callee, declaration, described.place, library,
                      description=described)
    return _with_backward(subject, found, source.name + BACKWARD)


def _with_backward(subject: Subject, found: FoundFunction, name: str, *,
                   is_named: bool = False) -> Subject:
    """Adds gradients to a subject beside which a backward pass of this name stands."""
    declared = subject.declaration
    backward = backward_of(found.backward, name, declared.kind, is_named=is_named)
    if backward is None or declared.kind is Kind.ROTARY or declared.form is not InputForm.DENSE:
        return subject
    declared = replace(declared, keywords=declared.keywords | {GRAD})
    return replace(subject, backward=backward, declaration=declared)


def begin_target(target: str, surroundings: Surroundings, known: Registered | None = None,
                 folders: Iterable[Path] = ()) -> None:
    """Starts the process of a target's host; `load` reports errors.  known: its entry."""
    if known:
        _start_client(target, _find_surroundings(known, surroundings), tuple(folders)).begin()
    else:
        _start_client(target, surroundings).begin()


Asked = TypeVar("Asked", bound=Surroundings | None)


def _find_surroundings(registered: Registered, surroundings: Asked) -> Surroundings | Asked:
    """Returns where a manifest's subjects live: with its program or interpreter, or as asked."""
    home = registered.library.program or registered.library.interpreter
    return home.surroundings(surroundings) if home else surroundings


def _start_client(key: str, surroundings: Surroundings, folders: Iterable[Path] = ()) -> Client:
    """Starts the host of a subject; with the same interpreter it imports from the same folders."""
    adapters = tuple(folder.absolute() for folder in (paths.folder("implementations"), *folders))

    def make_client() -> Client:
        if not surroundings.is_here:
            return Client(surroundings, adapters=adapter_folders(adapters),
                          files=read_files(key, adapters))
        path = import_folders() if _is_same(surroundings) else ()
        return Client(surroundings, path=path, adapters=list(map(str, adapters)))

    return client_of((key, repr(surroundings), adapters), make_client)


def _list_flushing(declaration: Declaration, callee: Callee) -> Iterable[tuple[DType, Any]]:
    for dtype in declaration.dtypes:
        said = declaration.precision.get(dtype, {})
        if "flushes_subnormals" in said:
            continue
        if operation := callee.find_flushing_operation(dtype):
            reason = f"here {declaration.lift} treats subnormal numbers as 0 in {operation}"
            yield dtype, {"flushes_subnormals": True, "reason": reason, **said}


def load_registered(registered: Registered, surroundings: Surroundings | None = None, *,
                    lift: str = "", folders: Iterable[Path] = ()) -> Subject:
    """Loads the subject of a manifest with its variants. It lives in a process of its own with
    these surroundings; without any, in this one. Raises TargetError (not installed, not loadable),
    ManifestError.
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
        adapters = (paths.folder("implementations"), *folders)
        loading.extend_adapters([str(folder.absolute()) for folder in adapters])

    def assemble(function: str) -> Subject:
        return _assemble_subject(registered, function, lift, client)

    subject = assemble(registered.function)
    variants = {name: _make_variant(subject, variant, assemble(variant.function))
                for name, variant in registered.declaration.variants.items()}
    return replace(subject, variants=variants)


def _left_at_defaults(registered: Registered, function_name: str) -> dict[str, str]:
    """Returns the defaults that the manifest lists and the adapter still leaves alone."""
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
        if client:
            found = load_in_host(source, function_name, client, (library.distribution,))
        else:
            found = in_process(source, function_name)
    except ImportingError as cause:
        if library.version:
            raise not_with_this_release(registered.id, library, str(cause)) from None
        raise
    except MissingNameError as cause:
        raise TargetError(str(cause), where=registered.where) from None
    described = found.description
    if not described.is_callable or described.is_class:
        raise not_callable(described, function_name, UNKNOWN_PLACE)
    signature = signature_of(described, source.name,
                             is_always_causal=registered.declaration.limits.causal_only)
    left = _left_at_defaults(registered, function_name)
    unknown = _with_version(library, found).unknown
    broken = {EVERY_KEYWORD[name].profile for name in unknown}
    claims = tuple(claim for claim in registered.declaration.claims if claim not in broken)
    declaration = replace(registered.declaration, keywords=signature.keywords - unknown,
                          claims=claims, defaults={**left, **signature.defaults},
                          off=signature.off, spelled=signature.spelled, form=signature.form,
                          given=signature.given, lift=lift or registered.declaration.lift)
    if signature.kind is not declaration.kind:
        raise TargetError(f"{registered.id} is declared as kind {declaration.kind.value!r}, but "
                          f"{source.name} is of kind {signature.kind.value!r} by its parameters.",
                          where=registered.where)
    if wrong := lacks_parameter(declaration.limits, signature.keywords, source.name):
        raise TargetError(f"{registered.id} cannot be judged: {wrong}", where=registered.where)
    check_lift(declaration.lift)
    callee = found.make_callee(declaration.lift)
    declaration = replace(declaration, keywords=list_offered_keywords(declaration),
                          precision=declaration.precision_there(_device_of(callee)))
    declaration = _drop_untakeable(declaration, callee)
    subject = Subject(registered.id, registered.title, callee, declaration, described.place,
                      _with_version(library, found), document=registered.document,
                      note=registered.note, entry=registered.where, description=described)
    return _with_backward(subject, found, own or source.name + BACKWARD, is_named=bool(own))


def _with_version(library: Library, found: FoundFunction) -> Library:
    """Returns the library with the version that its program tells. Raises TargetError."""
    told = library
    if library.program:
        told = replace(library, told_version=found.versions.get(library.distribution, ""))
    if told.why_unfit:
        raise TargetError(f"{library.folder} cannot be judged here: {told.why_unfit}")
    return told


def _drop_untakeable(declaration: Declaration, callee: Callee) -> Declaration:
    reasons = {dtype: callee.why_not_taken(dtype) for dtype in declaration.dtypes}
    left_out = {dtype: reason for dtype, reason in reasons.items() if reason}
    return replace(declaration,
                   dtypes=tuple(dtype for dtype in declaration.dtypes if dtype not in left_out),
                   left_out={**declaration.left_out, **left_out})


def _make_variant(base: Subject, variant: Variant, subject: Subject) -> Subject:
    """Makes a variant: its function under the subject's declaration, with what it changes."""
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
    """Returns the kind of device on which the callee's arrays are placed."""
    return kind_of(callee.place.get("device", ""))


def list_offered_keywords(declaration: Declaration) -> frozenset[str]:
    """Returns the keywords that can be put to it; a mask may travel as a bias."""
    travels = declaration.limits.bias_is_mask and "bias" in declaration.keywords
    return declaration.keywords | {"mask"} if travels else declaration.keywords


def importable_name(target: str) -> str:
    """Returns a bare target as `attnspec init` wants it; else a stand-in."""
    return FunctionSource.from_target(target).importable


# What is handed over to a host that does not see the files of this machine


MOST_BYTES = 2**23
"""The most bytes of Python that are sent: a folder with more is not one of one's own code."""

_LEFT_OUT_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "findings", "build",
                               "dist", "reports"})


def read_files(target: str, adapters: Sequence[Path]) -> Mapping[str, str]:
    """Reads the files that a target may import: by the name that each gets there, its text. For
    `path/to/file.py:function` that is its folder. For `package.module:function` it is the package,
    or the module and its siblings, if it lies in the working directory; else it has to be
    installed over there. For a registered subject it is every adapter. Raises TargetError where
    that is too much.
    """
    module = target.rpartition(":")[0]
    if not module:
        named = zip(adapter_folders(adapters), adapters, strict=True)
        return {f"{name}/{file}": text for name, folder in named
                for file, text in _list_files(folder)}
    if module.endswith(".py") or "/" in module:
        return python_files(Path(module).absolute().parent)
    top = module.partition(".")[0]
    if Path(top).is_dir():
        return {f"{top}/{file}": text for file, text in _list_files(Path(top).absolute())}
    return python_files(Path.cwd()) if Path(f"{top}.py").is_file() else {}


def python_files(folder: Path) -> Mapping[str, str]:
    """Reads the Python files of a folder, by path. Raises TargetError where that is too much."""
    return dict(_list_files(folder))


def adapter_folders(adapters: Sequence[Path]) -> list[str]:
    """Returns the names of the folders of adapters over there."""
    return [f"adapters{number}" for number, _ in enumerate(adapters)]


def _list_files(folder: Path) -> Iterator[tuple[str, str]]:
    handed = 0
    for path in sorted(_read_python(folder)):
        handed += path.stat().st_size
        if handed > MOST_BYTES:
            raise TargetError(f"{shown_path(folder)} holds more than {MOST_BYTES // 2**20} MiB of "
                              "Python, too much to send. Put the function into a folder of its "
                              "own, or install its package there.")
        text = path.read_text(encoding="utf-8", errors="replace")
        yield path.relative_to(folder).as_posix(), text


def _read_python(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        is_hidden = path.name.startswith(".") or path.name in _LEFT_OUT_FOLDERS
        if is_hidden or (path / "pyvenv.cfg").exists():
            continue
        if path.is_dir():
            yield from _read_python(path)
        elif path.suffix == ".py":
            yield path
