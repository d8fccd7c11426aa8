# ruff: noqa: E501  (a mistake and its answer are read together)
"""Seeded mistakes: each is answered with its place, what is wrong, and the nearest valid name; never with a traceback.

A message that ends in … is the beginning of the real one (what follows is a list that grows with the project).
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from attnspec import gate
from attnspec.cli import main
from attnspec.core.errors import LISTINGS, AttnspecError, ManifestError, UsageError, hint
from attnspec.core.nouns import DType
from attnspec.spec.load import load_spec
from attnspec.subjects.findings import read_findings
from attnspec.subjects.manifest import read_manifest
from attnspec.trials.compile import compile_spec
from helpers.places import TESTS

FAULTS = ("causal_ignored", "causal_off_by_one", "unscaled")

# (what the author did, the file, what stood there, what stands there now, the answer)
SPEC = [
    # --- YAML
    ("a key twice", "causal.yaml", "    level: must\n", "    level: must\n    level: must\n",
     "spec/causal.yaml:5: the key 'level' is given twice; first on line 4."),
    ("a tab", "causal.yaml", "    level: must", "\tlevel: must",
     "spec/causal.yaml:4: is not YAML: a tab indents this line. Indent with spaces."),
    ("an open bracket", "causal.yaml", "because:", "because: [",
     "spec/causal.yaml:9: is not YAML: …"),
    ("an open quote", "causal.yaml", "(j > i)'", "(j > i)",
     "spec/causal.yaml:19: is not YAML: found unexpected end of stream while scanning a quoted scalar begun on line 7."),
    ("a colon in a sentence", "scale.yaml", "says: Widening", "says: Widening: every",
     "spec/scale.yaml:6: is not YAML: this line has a second colon. Put the text behind the first one in quotes."),
    ("a text that begins with a sign of YAML's", "scale.yaml", "says: Widening", "says: @Widening",
     "spec/scale.yaml:6: is not YAML: a text cannot begin with '@'. Put it in quotes."),
    ("an anchor", "scale.yaml", "level: should", "level: &strength should",
     "spec/scale.yaml:4: 'strength' is an anchor or alias; write the value out."),
    ("an alias", "scale.yaml", "level: should", "level: *strength",
     "spec/scale.yaml:4: 'strength' is an anchor or alias; write the value out."),
    ("a tag", "scale.yaml", "level: should", "level: !!python/name:os.system should",
     "spec/scale.yaml:4: the tag 'tag:yaml.org,2002:python/name:os.system' is not allowed; write a plain value."),
    ("two documents", "scale.yaml", "theme: scale", "theme: scale\n---\ntheme: scale",
     "spec/scale.yaml:2: a second document begins here; a file holds one."),
    ("a number as a key", "causal.yaml", "      original: []", "      1: []",
     "spec/causal.yaml:14: '1' cannot be a key: keys are text. Quote it if text is meant."),
    ("an escape that does not show", "scale.yaml", "says: Widening", 'says: "\\x1b[2J" # Widening',
     "spec/scale.yaml:6: holds the character U+001B, which is invisible. Leave it out."),
    ("a key of 200 letters", "scale.yaml", "    level:", f"    {'k' * 200}:",
     f"spec/scale.yaml:4: '{'k' * 99}… (202 characters) cannot be a key: at most 100 characters are."),
    ("a value of 5000 letters", "scale.yaml", "level: should", f"level: {'s' * 5000}",
     f"spec/scale.yaml:4: '{'s' * 99}… (5002 characters) is not a known level. Known: may, must, should."),
    ("a comma in a flow text", "causal.yaml", "note: masked self-attention in the decoder", "note: masked, in the decoder",
     "spec/causal.yaml:10: 'in the decoder' is not a key of a citation: within {…} a text with a comma needs quotes."),
    # --- the shape of a file
    ("another theme than its file", "causal.yaml", "theme: causal", "theme: casual",
     "spec/causal.yaml:1: 'theme' of a theme's file should be 'causal', the name of its file, not 'casual'."),
    ("a misspelled key of the file", "causal.yaml", "clauses:", "clause:",
     "spec/causal.yaml:2: 'clause' is not a known key of a theme's file. Did you mean 'clauses'?"),
    ("a clause for a list", "scale.yaml", "  - id: scale", "    id: scale",
     "spec/scale.yaml:2: 'clauses' of a theme's file should be a list of mappings, not a mapping."),
    ("a version that is a number", "spec.yaml", '"0.0.1"', "0.1",
     "spec/spec.yaml:1: 'version' of the spec should be text, not a number (0.1). Quote it if text is meant."),
    ("no version", "spec.yaml", "version:", "versoin:",
     "spec/spec.yaml:1: 'versoin' is not a known key of the spec. Did you mean 'version'?"),
    # --- a clause
    ("a misspelled key", "causal.yaml", "    needs:", "    need:",
     "spec/causal.yaml:11: 'need' is not a known key of a clause. Did you mean 'needs'?"),
    ("no level", "scale.yaml", "    level: should\n", "",
     "spec/scale.yaml:3: the clause 'scale.inverse_root_width' needs 'level'. It has: …"),
    ("no id", "scale.yaml", "  - id: scale.inverse_root_width\n    level", "  - level",
     "spec/scale.yaml:3: a clause needs 'id'. It has: level, profile, says, because, given, runs, then."),
    ("an unknown level", "causal.yaml", "level: must", "level: shall",
     "spec/causal.yaml:4: 'shall' is not a known level. Known: may, must, should."),
    ("a misspelled level", "causal.yaml", "level: must", "level: most",
     "spec/causal.yaml:4: 'most' is not a known level. Did you mean 'must'?"),
    ("a misspelled profile", "causal.yaml", "profile: causal", "profile: casual",
     "spec/causal.yaml:5: 'casual' is not a known profile. Did you mean 'causal'? `attnspec list profiles` names them all."),
    ("an id without a dot", "causal.yaml", "id: causal.no_lookahead", "id: NoLookahead",
     "spec/causal.yaml:3: 'id' of a clause should look like causal.no_lookahead (lower case, a dot), not 'NoLookahead'."),
    ("a long id", "scale.yaml", "id: scale.inverse_root_width", f"id: scale.{'a' * 100}",
     "spec/scale.yaml:3: 'id' of a clause has 106 characters; 80 are the most."),
    ("an id twice", "scale.yaml", "id: scale.inverse_root_width", "id: causal.no_lookahead",
     "spec/scale.yaml:3: there are two clauses 'causal.no_lookahead'; the first is at spec/causal.yaml:3. Rename this one."),
    ("no full stop", "scale.yaml", "halves each logit.", "halves each logit",
     "spec/scale.yaml:6: 'says' of the clause 'scale.inverse_root_width' should end with a full stop."),
    ("two sentences", "scale.yaml", "halves each logit.", "halves each logit. Always.",
     "spec/scale.yaml:6: 'says' of the clause 'scale.inverse_root_width' should be one sentence; put the rest into 'note'."),
    ("a sentence that is a list", "scale.yaml", "says: Widening", "says: [Widening] #",
     "spec/scale.yaml:6: 'says' of the clause 'scale.inverse_root_width' should be text, not a list."),
    ("an empty sentence", "scale.yaml", "says: Widening", "says: '' # Widening",
     "spec/scale.yaml:6: 'says' of the clause 'scale.inverse_root_width' is empty."),
    ("no sentence", "scale.yaml", "says: Widening", "says: # Widening",
     "spec/scale.yaml:6: 'says' of the clause 'scale.inverse_root_width' should be text, not nothing."),
    ("a formula that is a number", "causal.yaml", "formula: '", "formula: 3 # '",
     "spec/causal.yaml:7: 'formula' of the clause 'causal.no_lookahead' should be text, not a whole number (3). "
     "Quote it if text is meant."),
    ("an unknown keyword needed", "causal.yaml", "needs: [return_weights]", "needs: [return_weight]",
     "spec/causal.yaml:11: 'return_weight' is not a known keyword of a subject. Did you mean 'return_weights'?"),
    ("a keyword that is always there", "causal.yaml", "always: [causal]", "always: [casual]",
     "spec/causal.yaml:12: 'casual' is not a known keyword of a subject. Did you mean 'causal'?"),
    ("a must that nothing refutes", "causal.yaml", "    refuted_by: [causal_ignored]\n", "",
     "spec/causal.yaml:3: the clause 'causal.no_lookahead' needs 'refuted_by': a must clause names a fault that violates it."),
    ("a fault named twice", "causal.yaml", "[causal_ignored]", "[causal_ignored, causal_ignored]",
     "spec/causal.yaml:18: 'refuted_by' of the clause 'causal.no_lookahead' names 'causal_ignored' twice."),
    ("five faults", "causal.yaml", "[causal_ignored]", "[a, b, c, d, causal_ignored]",
     "spec/causal.yaml:18: 'refuted_by' of the clause 'causal.no_lookahead' names 5 faults. Name the 4 that teach most; "
     "spec/refutations.json names all."),
    ("a misspelled fault", "causal.yaml", "[causal_ignored]", "[causal_ignord]",
     "spec/causal.yaml:18: 'causal_ignord' is not a known fault. Did you mean 'causal_ignored'? `attnspec list faults` names them all."),
    # --- sources
    ("a misspelled source", "causal.yaml", "cite: vaswani2017", "cite: vaswani17",
     "spec/causal.yaml:10: 'vaswani17' is not a known source of the bibliography. Did you mean 'vaswani2017'? `attnspec list sources` names them all."),
    ("a source without its words", "causal.yaml", ", note: masked self-attention in the decoder", "",
     "spec/causal.yaml:10: the citation of 'vaswani2017' needs a 'quote' or a 'note'."),
    ("a long quote", "causal.yaml", "note: masked self-attention in the decoder", f"quote: {'a' * 121}",
     "spec/causal.yaml:10: 'quote' of a citation has 121 characters; 120 are enough to find the place."),
    ("a translation of nothing", "causal.yaml", "note: masked self-attention in the decoder", "note: masked, translation: masked",
     "spec/causal.yaml:10: 'translation' of a citation translates nothing: the citation has no 'quote'."),
    ("a misspelled key of a citation", "causal.yaml", "quote: ", "qoute: ",
     "spec/causal.yaml:9: 'qoute' is not a known key of a citation. Did you mean 'quote'?"),
    ("no source at all", "scale.yaml", "because:\n      - {cite: vaswani2017, note: the scale is 1/sqrt(d_k)}", "because: []",
     "spec/scale.yaml:7: 'because' of the clause 'scale.inverse_root_width' is empty; every clause cites where its sentence "
     "comes from."),
    ("a source that is a text", "scale.yaml", "{cite: vaswani2017, note: the scale is 1/sqrt(d_k)}", "vaswani2017",
     "spec/scale.yaml:8: 'because[0]' of the clause 'scale.inverse_root_width' should be a mapping, not text ('vaswani2017')."),
    ("a kind of source", "bibliography.yaml", "kind: paper", "kind: papers",
     "spec/bibliography.yaml:4: 'papers' is not a known kind of source. Did you mean 'paper'?"),
    ("an address without a scheme", "bibliography.yaml", "url: https://", "url: ",
     "spec/bibliography.yaml:6: 'url' of the source 'vaswani2017' should be an address that begins with https:// or http://, "
     "not 'arxiv.org/abs/1706.03762'."),
    ("an address with a space", "bibliography.yaml", "https://arxiv.org/abs", "https://arxiv.org/the abs",
     "spec/bibliography.yaml:6: 'url' of the source 'vaswani2017' should be an address without ' ' in it, "
     "not 'https://arxiv.org/the abs/1706.03762'."),
    ("an address without a host", "bibliography.yaml", "https://arxiv.org/abs", "'https://[::1' #",
     "spec/bibliography.yaml:6: 'url' of the source 'vaswani2017' should be an address whose host can be read, "
     "not 'https://[::1'."),
    ("an address that is code", "bibliography.yaml", "https://arxiv.org/abs", "javascript:alert(1)//",
     "spec/bibliography.yaml:6: 'url' of the source 'vaswani2017' should be an address that begins with https:// or "
     "http://, not 'javascript:alert(1)///1706.03762'."),
    ("a year of two digits", "bibliography.yaml", "year: 2017", "year: 17",
     "spec/bibliography.yaml:5: 'year' of the source 'vaswani2017' should have four digits, not 17."),
    ("a source without a title", "bibliography.yaml", "    title: Attention Is All You Need\n", "",
     "spec/bibliography.yaml:2: the source 'vaswani2017' needs 'title'. It has: kind, year, url."),
    ("a source's key", "bibliography.yaml", "  aiayn_notes:", "  aiayn-notes:",
     "spec/bibliography.yaml:7: 'aiayn-notes' is not a key for a source: lower-case letters, digits and _ only."),
    # --- problems
    ("a misspelled problem", "scale.yaml", "problem: any_attention", "problem: any_atention",
     "spec/scale.yaml:9: 'any_atention' is not a known problem. Did you mean 'any_attention'? `attnspec list problems` names them all."),
    ("no problem", "scale.yaml", "given: {problem: any_attention}", "given: {}",
     "spec/scale.yaml:9: `given` needs 'problem'."),
    ("a problem that is a text", "scale.yaml", "given: {problem: any_attention}", "given: any_attention",
     "spec/scale.yaml:9: 'given' of the clause 'scale.inverse_root_width' should be a mapping, not text ('any_attention')."),
    ("an unknown argument of a problem", "problems.yaml", "lengths: self", "lenghts: self",
     "spec/problems.yaml:3: 'lenghts' is not a known argument of the problem 'self_attention'. Did you mean 'lengths'?"),
    ("a choice of a problem", "problems.yaml", "grouped: maybe", "grouped: perhaps",
     "spec/problems.yaml:2: 'perhaps' is not a known choice for 'grouped' of the problem 'any_attention'. "
     "Known: always, maybe, no."),
    ("a size that is a text", "problems.yaml", "min_queries: 2", "min_queries: two",
     "spec/problems.yaml:3: 'min_queries' of the problem 'self_attention' should be a whole number, not text ('two')."),
    ("a problem without a kind", "problems.yaml", "{kind: attention, lengths", "{lengths",
     "spec/problems.yaml:3: the problem 'self_attention' needs 'kind'. It has: lengths, min_queries."),
    ("a problem's name", "problems.yaml", "  any_attention:", "  any-attention:",
     "spec/problems.yaml:2: 'any-attention' is not a name for a problem: lower-case letters, digits and _ only."),
    ("a kind that is none", "problems.yaml", "{kind: attention, lengths", "{kind: atention, lengths",
     "spec/problems.yaml:3: 'atention' is not a known choice for 'kind' of the problem 'self_attention'. "
     "Did you mean 'attention'?"),
    ("no family to choose from", "scale.yaml", "{problem: any_attention}", "{problem: any_attention, families: []}",
     "spec/scale.yaml:9: 'families' of the problem 'any_attention' is empty, so there is nothing to choose from. Leave it "
     "out, or give at least one of integers, …"),
    ("no mask to choose from", "scale.yaml", "{problem: any_attention}", "{problem: any_attention, masks: []}",
     "spec/scale.yaml:9: 'masks' of the problem 'any_attention' is empty, so there is nothing to choose from. …"),
    ("a problem overridden wrongly", "scale.yaml", "{problem: any_attention}", "{problem: any_attention, groped: no}",
     "spec/scale.yaml:9: 'groped' is not a known argument of the problem 'any_attention'. Did you mean 'grouped'?"),
    # --- words
    ("a misspelled draw", "causal.yaml", "cut: row_before_last", "cut: row_befor_last",
     "spec/causal.yaml:12: 'row_befor_last' is not a known value to draw. Did you mean 'row_before_last'?"),
    ("a misspelled transform", "causal.yaml", "replace_after:", "replace_aftr:",
     "spec/causal.yaml:15: 'replace_aftr' is not a known transform. Did you mean 'replace_after'? `attnspec list words` names them all."),
    ("a misspelled relation", "causal.yaml", "agree:", "agre:",
     "spec/causal.yaml:17: 'agre' is not a known relation. Did you mean 'agree'? `attnspec list words` names them all."),
    ("a misspelled argument", "causal.yaml", "rows_through: cut", "row_through: cut",
     "spec/causal.yaml:17: 'row_through' is not a known argument of the relation 'agree'. Did you mean 'rows_through'?"),
    ("an array that is none", "causal.yaml", "[key, value]", "[key, values]",
     "spec/causal.yaml:15: 'values' is not a known choice for 'arrays[1]' of the transform 'replace_after'. "
     "Did you mean 'value'?"),
    ("one array for a list", "causal.yaml", "arrays: [key, value]", "arrays: key",
     "spec/causal.yaml:15: 'arrays' of the transform 'replace_after' should be a list, each entry one of query, key, value, "
     "not text ('key'). Write [key]."),
    ("a value that is not drawn", "causal.yaml", "cut: cut}", "cut: cutt}",
     "spec/causal.yaml:15: 'cutt' is not a known drawn value of the clause. Did you mean 'cut'?"),
    ("a number where a drawn value belongs", "causal.yaml", "cut: cut}", "cut: 3}",
     "spec/causal.yaml:15: 'cut' of the transform 'replace_after' should be the name of a drawn value, not a whole number (3)."),
    ("an argument left out", "scale.yaml", "{widen: {by: 4}}", "{widen: {}}",
     "spec/scale.yaml:11: the transform 'widen' needs 'by': a whole number."),
    ("a text for a number", "scale.yaml", "{by: 4}", "{by: four}",
     "spec/scale.yaml:11: 'by' of the transform 'widen' should be a whole number, not text ('four')."),
    ("a fraction for a whole number", "scale.yaml", "{by: 4}", "{by: 4.5}",
     "spec/scale.yaml:11: 'by' of the transform 'widen' should be a whole number, not a number (4.5)."),
    ("arguments that are a list", "scale.yaml", "{widen: {by: 4}}", "{widen: [4]}",
     "spec/scale.yaml:11: the arguments of 'widen' should be a mapping, not a list."),
    ("two words in one", "scale.yaml", "[{widen: {by: 4}}]", "[{widen: {by: 4}, repeat_keys: {}}]",
     "spec/scale.yaml:11: one word with its arguments is expected; found 2 words: widen, repeat_keys."),
    ("a number for a word", "scale.yaml", "[{widen: {by: 4}}]", "[4]",
     "spec/scale.yaml:11: a word with its arguments is expected, not a whole number (4)."),
    ("a run that is no list", "scale.yaml", "[{widen: {by: 4}}]", "{widen: {by: 4}}",
     "spec/scale.yaml:11: 'widened' of `runs` should be a list of words, not a mapping."),
    ("a run's name", "scale.yaml", "      widened:", "      Widened one:",
     "spec/scale.yaml:11: 'Widened one' is not a name: lower-case letters, digits and _ only."),
    ("a misspelled run", "scale.yaml", "runs: [widened, halved]", "runs: [widened, halvd]",
     "spec/scale.yaml:14: 'halvd' is not a known run of the clause. Did you mean 'halved'?"),
    ("one run of two", "scale.yaml", "runs: [widened, halved]", "runs: [widened]",
     "spec/scale.yaml:14: 'runs' of the relation 'agree' should be a list of 2: the name of a run, then the name of a run; "
     "found a list of 1."),
    ("a misspelled observable", "scale.yaml", "observe: weights", "observe: weight",
     "spec/scale.yaml:14: 'weight' is not a known choice for 'observe' of the relation 'agree'. Did you mean 'weights'?"),
    ("a tolerance by hand", "scale.yaml", "within: rounding", "within: 1e-5",
     "spec/scale.yaml:14: 'within' of the relation 'agree' should be one of exact, rounding, reordering, not a number (1e-05)."),
    ("a kind of tolerance", "scale.yaml", "within: rounding", "within: rounded",
     "spec/scale.yaml:14: 'rounded' is not a known choice for 'within' of the relation 'agree'. Did you mean 'rounding'?"),
    ("nothing claimed", "scale.yaml", "then:\n      - agree: {runs: [widened, halved], observe: weights, within: rounding}",
     "then: []",
     "spec/scale.yaml:13: 'then' of the clause 'scale.inverse_root_width' is empty; a clause must claim something."),
]

# (what happened, what is done to the folder `spec`, the answer)
FILES = [
    ("no such folder", shutil.rmtree, "spec: there is no such folder; a spec is a folder of YAML files."),
    ("a file instead of a folder", lambda spec: spec.rename(spec.parent / "moved") and spec.write_text(""),
     "spec: is not a folder; a spec is a folder of YAML files. Clauses of your own are added by --spec-add."),
    ("no clauses", lambda spec: [path.rename(path.with_suffix(".txt")) for path in spec.glob("[cs]*al*.yaml")],
     "spec: holds no clauses: there is no file of a theme, such as causal.yaml."),
    ("no problems", lambda spec: (spec / "problems.yaml").unlink(), "spec/problems.yaml: there is no such file."),
    ("no bibliography", lambda spec: (spec / "bibliography.yaml").unlink(), "spec/bibliography.yaml: there is no such file."),
    ("no version", lambda spec: (spec / "spec.yaml").unlink(), "spec/spec.yaml: there is no such file."),
    ("an empty file", lambda spec: (spec / "heads.yaml").write_text("# nothing\n"),
     "spec/heads.yaml:1: is empty; a mapping is expected."),
    ("a list for a file", lambda spec: (spec / "heads.yaml").write_text("- 1\n"),
     "spec/heads.yaml:1: holds a list; a mapping is expected."),
    ("a folder for a file", lambda spec: (spec / "heads.yaml").mkdir(),
     "spec/heads.yaml: is a folder; a YAML file is expected."),
    ("bytes that are no text", lambda spec: (spec / "heads.yaml").write_bytes(b"theme: heads\nclauses: \xff\n"),
     "spec/heads.yaml:2: is not UTF-8 text: byte 0xff cannot be read."),
    ("a control character", lambda spec: (spec / "heads.yaml").write_bytes(b"theme: heads\nclauses: \x07\n"),
     "spec/heads.yaml:2: holds the character U+0007, which is invisible. Leave it out."),
    ("another ending", lambda spec: (spec / "heads.yml").write_text("theme: heads\n"),
     "spec/heads.yml: the files of a spec end in .yaml; rename this one."),
    ("endless nesting", lambda spec: (spec / "heads.yaml").write_text("theme: " + "[" * 5000),
     "spec/heads.yaml:1: nests deeper than 24 levels."),
    ("an endless number", lambda spec: (spec / "heads.yaml").write_text("theme: " + "9" * 5000),
     "spec/heads.yaml:1: this number is too long. Quote it if text is meant."),
]


# (what the author did, what stood in the manifest, what stands there now, the answer after "implementations/mine/")
MANIFEST = [
    ("a key twice", "library: Mine", "library: Mine\nlibrary: Mine",
     "manifest.yaml:2: the key 'library' is given twice; first on line 1."),
    ("a tab", "    title:", "\ttitle:",
     "manifest.yaml:6: is not YAML: a tab indents this line. Indent with spaces."),
    ("a misspelled key", "homepage:", "hompage:",
     "manifest.yaml:2: 'hompage' is not a known key of a manifest. Did you mean 'homepage'?"),
    ("no library", "library: Mine\n", "",
     "manifest.yaml:1: a manifest needs 'library'. It has: homepage, install, subjects."),
    ("an address without a scheme", "homepage: https://", "homepage: ",
     "manifest.yaml:2: 'homepage' of a manifest should be an address that begins with https:// or http://, not 'example.org'."),
    ("subjects that are no list", "  - id: attention", "    id: attention",
     "manifest.yaml:4: 'subjects' of a manifest should be a list of mappings, not a mapping."),
    ("a misspelled key of a subject", "    claims:", "    claim:",
     "manifest.yaml:9: 'claim' is not a known key of a subject. Did you mean 'claims'?"),
    ("a subject without a title", "    title: Attention that returns its values\n", "",
     "manifest.yaml:5: a subject needs 'title'. It has: …"),
    ("a function without an adapter", "function: adapter:attend\n    dtypes", "function: attend\n    dtypes",
     "manifest.yaml:7: 'function' of a subject should be `adapter:name`, as in 'attention:attend', not 'attend'."),
    ("an adapter that is not there", "function: adapter:attend\n    dtypes", "function: adaptor:attend\n    dtypes",
     "manifest.yaml:7: 'adaptor' is not a known adapter in implementations/mine. Did you mean 'adapter'?"),
    ("an id that is a command", "id: attention", "id: attention; true",
     "manifest.yaml:5: 'id' of a subject should be a name of letters, digits, _, . and -, at most 80, "
     "not 'attention; true'."),
    ("an id of a variant", "eval: {", "e val: {",
     "manifest.yaml:15: 'e val' is not a name for a variant: letters, digits, _, . and -, at most 80."),
    ("no module", "install:", "requires: numpy ..x\ninstall:",
     "manifest.yaml:3: 'requires' of a manifest should name modules, as in 'onnxruntime mlx.core', not '..x'."),
    ("a variable that is none", "    dtypes:", "    process: {A=B: '1'}\n    dtypes:",
     "manifest.yaml:8: 'A=B' is not a name for an environment variable: letters, digits and _ only."),
    ("a number of thousands of digits", "install:", f"versions: '>={'9' * 5000}'\ninstall:",
     f"manifest.yaml:3: 'versions' of a manifest should be a version specifier, as in '>=0.10,<0.14', not "
     f"'>={'9' * 97}… (5004 characters)."),
    ("a name that no file can have", "function: adapter:attend\n    dtypes", f"function: {'a' * 300}:attend\n    dtypes",
     f"manifest.yaml:7: '{'a' * 99}… (302 characters) is not a known adapter in implementations/mine. Known: adapter."),
    ("no requirement", "    dtypes:", "    faster_with: {where: numpy>>2, variables: {FAST: '1'}}\n    dtypes:",
     "manifest.yaml:8: 'where' of what it is faster with should be a requirement, as in 'jaxlib>=0.6', not 'numpy>>2'."),
    ("a dtype", "dtypes: [float32, float64]", "dtypes: [float32, flot64]",
     "manifest.yaml:8: 'flot64' is not a known dtype. Did you mean 'float64'?"),
    ("one dtype for a list", "dtypes: [float32, float64]", "dtypes: float32",
     "manifest.yaml:8: 'dtypes' of a subject should be a list of texts, not text ('float32')."),
    ("a profile", "[core, masking]", "[core, maskin]",
     "manifest.yaml:9: 'maskin' is not a known profile. Did you mean 'masking'? `attnspec list profiles` names them all."),
    ("a limit", "ties_value_width: true", "tie_value_width: true",
     "manifest.yaml:10: 'tie_value_width' is not a known key of 'limits'. Did you mean 'ties_value_width'?"),
    ("a limit that is a text", "ties_value_width: true", "ties_value_width: 'yes'",
     "manifest.yaml:10: 'ties_value_width' of 'limits' should be true or false, not text ('yes')."),
    ("a limit that is a word", "min_head_width: 2", "min_head_width: two",
     "manifest.yaml:10: 'min_head_width' of 'limits' should be a whole number, not text ('two')."),
    ("a limit that no memory holds", "min_head_width: 2", "min_head_width: 1000000",
     "manifest.yaml:10: 'min_head_width' of 'limits' should be a whole number from 1 to 512, not 1000000."),
    ("a limit below the least", "min_head_width: 2", "min_head_width: 0",
     "manifest.yaml:10: 'min_head_width' of 'limits' should be a whole number from 1 to 512, not 0."),
    ("a convention", "hidden_row: zeros", "hiden_row: zeros",
     "manifest.yaml:11: 'hiden_row' is not a known key of the conventions. Did you mean 'hidden_row'?"),
    ("an answer to a convention", "hidden_row: zeros", "hidden_row: zero",
     "manifest.yaml:11: 'zero' is not a known answer to hidden_row. Did you mean 'zeros'?"),
    ("a dtype of the precision", "float32: {grade", "float23: {grade",
     "manifest.yaml:13: 'float23' is not a known key of the precision. Did you mean 'float32'?"),
    ("a precision without a reason", ", reason: everything is float32", "",
     "manifest.yaml:13: the precision of 'float32' needs 'reason'. It has: grade."),
    ("a key of a variant", "eval: {function:", "eval: {fucntion:",
     "manifest.yaml:15: 'fucntion' is not a known key of the variant 'eval'. Did you mean 'function'?"),
    ("a verdict of a deviation", "verdict: violated", "verdict: voilated",
     "manifest.yaml:18: 'voilated' is not a known verdict of a failure. Did you mean 'violated'?"),
    ("a deviation without a link", "        issue: https://example.org/1\n", "",
     "manifest.yaml:17: a deviation needs 'issue'. It has: clause, verdict, reason, until."),
    ("an end that is no version", 'until: "2.0"', "until: someday",
     "manifest.yaml:21: 'until' of a deviation should be a version, as in '2.14', not 'someday'."),
    ("an end of thousands of digits", 'until: "2.0"', f"until: '{'9' * 50}'",
     f"manifest.yaml:21: 'until' of a deviation should be a version, as in '2.14', not '{'9' * 50}'."),
    ("a script that is not there", "issue: https://example.org/1", "script: gone.py",
     "manifest.yaml:20: 'script' of a deviation names no file: there is no implementations/mine/gone.py."),
    ("an end that is a number", 'until: "2.0"', "until: 2.0",
     "manifest.yaml:21: 'until' of a deviation should be text, not a number (2.0). Quote it if text is meant."),
]

SOUND_FINDINGS = """\
findings:
  - id: ignored
    says: The flag is ignored.
    subjects: [attention]
    clauses: [causal.*]
    dtypes: [float32]
    versions: "<2"
    script: adapter.py
    documented: "no"
    issue: https://example.org/1
    cases: {keywords: [causal], largest_scale: 0, raises: "^RuntimeError"}
"""

# (what the author did, what stood in findings.yaml, what stands there now, the answer after "implementations/mine/")
FINDINGS = [
    ("no subject", "[attention]", "[]",
     "findings.yaml:4: 'subjects' of a finding is empty, so the finding explains nothing. Name at least one; * stands for "
     "any text."),
    ("no clause", "[causal.*]", "[]",
     "findings.yaml:5: 'clauses' of a finding is empty, so the finding explains nothing. Name at least one; * stands for "
     "any text."),
    ("a dtype", "[float32]", "[flot32]", "findings.yaml:6: 'flot32' is not a known dtype. Did you mean 'float32'?"),
    ("a version", '"<2"', '"<two"',
     "findings.yaml:7: 'versions' of a finding should be a version specifier, as in '>=0.10,<0.14', not '<two'."),
    ("a script that is elsewhere", "adapter.py", "../../secret.py",
     "findings.yaml:8: 'script' of a finding should lie in the library's folder, implementations/mine."),
    ("a script that is no text", "adapter.py", "noise.py",
     "findings.yaml:8: 'script' of a finding cannot be read: it is no UTF-8 text."),
    ("an address", "https://example.org/1", "example.org/1",
     "findings.yaml:10: 'issue' of a finding should be an address that begins with https:// or http://, not "
     "'example.org/1'."),
    ("a scale that is no number", "largest_scale: 0", "largest_scale: .nan",
     "findings.yaml:11: 'largest_scale' of `cases` should be a finite number, not nan."),
    ("a pattern that is none", '"^RuntimeError"', '"("',
     "findings.yaml:11: 'raises' of `cases` is no regular expression: missing ), unterminated subpattern at position 0."),
    ("an id", "id: ignored", "id: ig/nored",
     "findings.yaml:2: 'id' of a finding should be a name of letters, digits, _, . and -, at most 80, not 'ig/nored'."),
    ("two of one id", "findings:\n", SOUND_FINDINGS,
     "findings.yaml:12: there are two findings 'mine/ignored'; the first is at implementations/mine/findings.yaml:2. "
     "Rename this one."),
]

# (what is typed after `attnspec`, the answer's last line)
COMMANDS = [
    ("chek", "Error: 'chek' is not a command. Did you mean 'check'?"),
    ("check", "Error: Missing argument 'TARGET...'."),
    ("check numpy/atention", "attnspec: 'numpy/atention' is not a known subject. Did you mean 'numpy/attention'? `attnspec list` names them all."),
    ("check mine:attend --efort quick", "Error: No such option '--efort'. …"),
    ("check mine:attend --effort thorogh",
     "Error: Invalid value for '--effort': 'thorogh' is not a known effort. Did you mean 'thorough'?"),
    ("check mine:attend --dtype float23",
     "Error: Invalid value for '--dtype': 'float23' is not a known dtype. Did you mean 'float32'?"),
    ("check mine:attend --dtype fp32",
     "Error: Invalid value for '--dtype': 'fp32' is not a known dtype. Did you mean 'float32'?"),
    ("check mine:attend --dtype int8",
     "Error: Invalid value for '--dtype': 'int8' is not a known dtype. Known: bfloat16, float16, float32, float64."),
    ("check mine:attend --lift troch",
     "Error: Invalid value for '--lift': 'troch' is not a known lift. Did you mean 'torch'?"),
    ("check mine:attend --clause causal.no_lookahed",
     "attnspec: 'causal.no_lookahed' is not a known clause. Did you mean 'causal.no_lookahead'? `attnspec list clauses` names them all."),
    ("check mine:attend --clause casual.*",
     "attnspec: 'casual.*' is not a known clause. Did you mean 'causal.*'? `attnspec list clauses` names them all."),
    ("check mine:attend --clause scale.default",
     "attnspec: 'scale.default' is not a known clause. Did you mean 'scale.explicit_default'? `attnspec list clauses` names them all."),
    ("check mine:attend --clause causal.with_mas",
     "attnspec: 'causal.with_mas' is not a known clause. Did you mean 'causal.with_mask'? `attnspec list clauses` names them all."),
    ("check mine:attend --clause past.counts",
     "attnspec: 'past.counts' is not a known clause. Did you mean 'past.lengths_count_it'? `attnspec list clauses` names them all."),
    ("check mine:attend --clause causal.futur",
     "attnspec: 'causal.futur' is not a known clause. The clauses of 'causal' are no_lookahead, later_keys_change_no_bit, …"),
    ("check mine:attend --clause quantum",
     "attnspec: 'quantum' is not a known clause. `attnspec list clauses` names them all."),
    ("check mine.py:attend", "attnspec: mine.py: there is no such file."),
    ("check :attend", "attnspec: ':attend' is not a known subject. …"),
    ("check mine:attend --profile casual",
     "attnspec: 'casual' is not a known profile. Did you mean 'causal'? `attnspec list profiles` names them all."),
    ("check mine:attend --spec nowhere", "attnspec: nowhere: there is no such folder; a spec is a folder of YAML files."),
    ("check numpy/msa --implementations nowhere", "attnspec: nowhere: there is no such folder of implementations."),
    ("check mine:attend --seed x", "Error: Invalid value for '--seed': 'x' is not a valid integer."),
    ("check mine:attend -n 0", "Error: Invalid value for '-n' / '--workers': 0 is not in the range 1<=x<=1024."),
    ("check mine:attend --deadline -3", "Error: Invalid value for '--deadline': -3.0 is not in the range 0<x<=1000000.0."),
    ("check mine:attend --deadline nan", "Error: Invalid value for '--deadline': nan is not a number of seconds."),
    ("check mine:attend --deadline inf",
     "Error: Invalid value for '--deadline': inf is not in the range 0<x<=1000000.0."),
    ("probe mine:attend --deadline 0", "Error: Invalid value for '--deadline': 0.0 is not in the range 0<x<=1000000.0."),
    ("init mine:attend --deadline nan", "Error: Invalid value for '--deadline': nan is not a number of seconds."),
    ("check mine:attend --deadline soon",
     "Error: Invalid value for '--deadline': 'soon' is not a valid number of seconds."),
    ("check mine:attend --seed 1000000000000000000", "Error: Invalid value for '--seed': 1000000000000000000 is not in …"),
    ("check mine:attend -n 2000", "Error: Invalid value for '-n' / '--workers': 2000 is not in the range 1<=x<=1024."),
    ("audit --implementations nowhere", "attnspec: nowhere: there is no such folder of implementations."),
    ("explain", "Error: Missing argument 'NAME'."),
    ("explain causal.no_lookahed",
     "attnspec: 'causal.no_lookahed' is neither a clause nor a word nor a fault. Did you mean 'causal.no_lookahead'? …"),
    ("explain causal.futur", "attnspec: 'causal.futur' is neither a clause nor a word nor a fault. The clauses of 'causal' are no_lookahead, …"),
    ("list everything", "Error: …"),
    ("list clase", "Error: Invalid value for '[WHAT]': 'clase' is not a known thing to list. Did you mean 'clauses'?"),
    ("report nowhere.jsonl", "attnspec: nowhere.jsonl: …"),
    ("replay mine:attend", "attnspec: a line to replay has four parts, 'TARGET CLAUSE DTYPE RECIPE', as a report prints it."),
    ("schema --chek", "Error: No such option '--chek'. …"),
    ("lint --spec nowhere", "nowhere: there is no such folder; a spec is a folder of YAML files."),
]


@pytest.fixture
def library(here: Path) -> Path:
    """A small sound manifest in the working directory, to be spoilt."""
    shutil.copytree(TESTS / "small_implementations", here / "implementations")
    return here / "implementations" / "mine" / "manifest.yaml"


def assert_says(said: str, message: str) -> None:
    assert said.startswith(message[:-1]) if message.endswith("…") else said == message


def compile_folder(spec: Path) -> None:
    compile_spec(load_spec(spec), faults=FAULTS)


def test_what_is_spoilt_here_is_sound_before(spec: Path, library: Path) -> None:
    compile_folder(spec)
    assert [subject.id for subject in read_manifest(library.parent)] == ["mine/attention"]


@pytest.mark.parametrize(("file", "was", "now", "message"), [row[1:] for row in SPEC], ids=[row[0] for row in SPEC])
def test_a_mistake_in_the_spec_is_named(spec: Path, file: str, was: str, now: str, message: str) -> None:
    text = (spec / file).read_text(encoding="utf-8")
    assert was in text
    (spec / file).write_text(text.replace(was, now, 1), encoding="utf-8")
    with pytest.raises(AttnspecError) as caught:
        compile_folder(spec)
    assert_says(str(caught.value), message)


@pytest.mark.parametrize(("spoil", "message"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_a_damaged_folder_is_named(spec: Path, spoil: Callable[[Path], object], message: str) -> None:
    spoil(spec)
    with pytest.raises(AttnspecError) as caught:
        compile_folder(spec)
    assert_says(str(caught.value), message)


@pytest.mark.parametrize(("was", "now", "message"), [row[1:] for row in MANIFEST], ids=[row[0] for row in MANIFEST])
def test_a_mistake_in_a_manifest_is_named(library: Path, was: str, now: str, message: str) -> None:
    text = library.read_text(encoding="utf-8")
    assert was in text
    library.write_text(text.replace(was, now, 1), encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        tuple(read_manifest(library.parent))
    assert_says(str(caught.value), f"implementations/mine/{message}")


@pytest.mark.parametrize(("was", "now", "message"), [row[1:] for row in FINDINGS], ids=[row[0] for row in FINDINGS])
def test_a_mistake_in_findings_is_named(here: Path, library: Path, was: str, now: str, message: str) -> None:
    (here / "secret.py").write_text("print(1)", encoding="utf-8")
    (library.parent / "noise.py").write_bytes(b"\xff")
    findings = library.parent / "findings.yaml"
    findings.write_text(SOUND_FINDINGS, encoding="utf-8")
    assert [finding.id for finding in read_findings(library.parent)] == ["mine/ignored"]
    findings.write_text(SOUND_FINDINGS.replace(was, now, 1), encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        tuple(read_findings(library.parent))
    assert_says(str(caught.value), f"implementations/mine/{message}")


@pytest.mark.parametrize(("typed", "answer"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_mistyped_command_cannot_run_and_says_why(
    typed: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(typed.split()) == 2
    shown = capsys.readouterr()
    assert_says((shown.out + shown.err).replace("\n1 to mend.", "").strip().splitlines()[-1], answer)
    assert "Traceback" not in shown.out + shown.err


@pytest.mark.parametrize("deadline", [math.nan, math.inf, 0.0, -1.0])
def test_a_gate_refuses_a_deadline_that_is_none(deadline: float) -> None:
    with pytest.raises(UsageError, match=f"a deadline of {deadline} s never passes, or has passed. Give seconds above"):
        gate("mine:attend", deadline=deadline)


@pytest.mark.parametrize(("name", "meant"), [
    ("float", "float32"), ("double", "float64"), ("half", "float16"), ("bf16", "bfloat16"), ("f16", "float16"),
    ("fp64", "float64"), ("torch.float32", "float32"), ("np.single", "float32"), ("Float32", "float32")])
def test_what_others_call_a_dtype_is_understood_and_not_taken(name: str, meant: str) -> None:
    assert hint(name, [dtype.value for dtype in DType]) == f" Did you mean {meant!r}?"


def test_names_that_are_equally_near_are_all_told() -> None:
    assert hint("float31", ["float16", "float32", "float64"]) == " Did you mean 'float32' or 'float16'?"
    assert hint("ab", ["ax", "ay", "az", "aw"]) == " Known: aw, ax, ay, az."


def test_many_names_are_told_only_where_no_command_lists_them() -> None:
    many = [f"word{number}" for number in range(9)]
    assert hint("x", many) == f" Known: {', '.join(many)}."
    assert hint("x", many, "clause") == " `attnspec list clauses` names them all."
    assert hint("x", many[:2], "clause") == " Known: word0, word1."


@pytest.mark.parametrize("command", LISTINGS.values())
def test_a_command_that_lists_names_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()[1:]) == 0
    assert capsys.readouterr().out


def test_the_user_sees_the_sentence_and_no_traceback(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spec / "causal.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("agree:", "agre:"), encoding="utf-8")
    assert main(["lint", "--spec", "spec"]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("spec/causal.yaml:17: 'agre' is not a known relation. Did you mean 'agree'? `attnspec list words` names them all.")
    assert "Traceback" not in shown.out + shown.err


@pytest.mark.parametrize(("words", "message"), [
    (("--host", ""), "--host has an empty value, as a variable has that is not set. Give it one, or leave --host out."),
    (("--host", " "), "--host has an empty value, as a variable has that is not set. Give it one, or leave --host out."),
    (("--python=",), "--python has an empty value, as a variable has that is not set. Give it one, or leave --python out."),
    (("--device", ""), "--device has an empty value, as a variable has that is not set. Give it one, or leave --device out."),
    (("--host", "python3 'x"), "--host \"python3 'x\" is no command: no closing quotation. Close what is opened."),
    (("\udcc3.py:attend",), "'\\udcc3.py:attend' cannot be read in the encoding of this environment, …"),
], ids=lambda each: "" if isinstance(each, str) else each[0][:12])
def test_what_cannot_be_meant_is_told_in_one_line(
        words: tuple[str, ...], message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    assert main(["check", "mine.py:attend", *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"attnspec: {message.rstrip('…')}")
    assert err.count("\n") == 1


def test_a_name_that_no_file_can_have_is_told_in_one_line(
        here: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    assert main(["check", f"{'a' * 300}/x"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"attnspec: no file has so long a name: '{'a' * 80}")
    assert err.count("\n") == 1


def test_a_problem_that_no_clause_uses_is_looked_at_too(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spec / "problems.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "  mine:\n    kind: attention\n    always: [nonsense]\n",
                    encoding="utf-8")
    assert main(["lint", "--spec", "spec"]) == 2
    assert "'nonsense' is not a known keyword" in capsys.readouterr().out


@pytest.mark.parametrize(("line", "message"), [
    ("numpy/msa * float32 B1", "attnspec: '*' names no single clause, and a case is that of one."),
    ("numpy/msa mask.* float32 B1", "attnspec: 'mask.*' names no single clause, and a case is that of one."),
])
def test_a_case_is_that_of_one_clause(
        line: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    assert main(["replay", line]) == 2
    assert capsys.readouterr().err.startswith(message)
