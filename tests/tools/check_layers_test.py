#!/usr/bin/env python3
"""Checks that tools/check_layers.py and tools/check_contract_names.py see what they are there to see."""
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


sys.path.insert(0, str(ROOT / "tools"))
import check_contract_names  # noqa: E402
import check_layers  # noqa: E402


class Layers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for top in ("include", "src", "apps", "bench", "fuzz"):
            shutil.copytree(ROOT / top, self.root / top)

    def append(self, path, text):
        with open(self.root / path, "a", encoding="utf-8") as file:
            file.write(text)

    def expect(self, path, text, complaint):
        self.assertEqual(check_layers.complaints(self.root), [])
        self.append(path, text)
        self.assertEqual(check_layers.complaints(self.root), [complaint])

    def test_an_include_of_a_higher_layer_is_told(self):
        self.expect("src/ops/contract.hpp", '#include "model/model.hpp"\n',
                    "src/ops/contract.hpp includes src/model/model.hpp, and src/ops does not stand on src/model")

    def test_an_include_of_a_neighbour_is_told(self):
        self.expect("src/text/chat_template.cpp", '#include "checkpoint/config.hpp"\n',
                    "src/text/chat_template.cpp includes src/checkpoint/config.hpp, and src/text does not stand on src/checkpoint")

    def test_a_kernel_header_above_the_kernels_is_told(self):
        for path in ("src/server/served_model.cpp", "src/model/runner.hpp", "src/ops/transformer_ops.cpp", "apps/cli/main.cpp"):
            with self.subTest(path):
                before = (self.root / path).read_text(encoding="utf-8")
                self.expect(path, '#include "kernels/cuda/runtime/device.hpp"\n',
                            f"{path} includes src/kernels/cuda/runtime/device.hpp, which only src/kernels/cuda itself "
                            "includes")
                (self.root / path).write_text(before, encoding="utf-8")

    def test_what_a_body_means_is_read_without_a_socket(self):
        self.expect("src/server/openai/error.hpp", '#include "server/http/message.hpp"\n',
                    "src/server/openai/error.hpp includes src/server/http/message.hpp, and src/server/openai does not stand on "
                    "src/server")

    def test_the_server_asks_the_layers_above_the_kernels(self):
        self.expect("src/server/served_model.hpp", '#include "kernels/backend.hpp"\n',
                    "src/server/served_model.hpp includes src/kernels/backend.hpp, and asks the layers between instead")

    def test_one_backend_does_not_include_another(self):
        self.expect("src/kernels/cpu/backend.cpp", '#include "kernels/cuda/sm_limits.hpp"\n',
                    "src/kernels/cpu/backend.cpp includes src/kernels/cuda/sm_limits.hpp, which only src/kernels/cuda "
                    "itself includes")

    def test_a_folder_without_a_place_is_told(self):
        (self.root / "src/attic").mkdir()
        self.expect("src/attic/old.cpp", '#include "base/check.hpp"\n',
                    "src/attic/old.cpp includes src/base/check.hpp, and one of the two is in a folder that "
                    "tools/check_layers.py gives no place")


class ContractNames(unittest.TestCase):
    def told_of(self, path, text):
        """What is told of a tree that has the tables and one more file."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for table in (*check_contract_names.TABLES, check_contract_names.SCHEMES):
                (root / table).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / table, root / table)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text + "\n", encoding="utf-8")
            return check_contract_names.complaints(root)

    def test_this_repository_compares_no_name(self):
        self.assertEqual(check_contract_names.complaints(ROOT), [])

    def test_each_way_to_name_one_is_told(self):
        for path, text, name in (
                ("src/model/model.cpp", 'bool f() { return name == "exact-1"; }', "exact-1"),
                ("apps/cli/main.cpp", 'const char* kNames[] = {"layercast"};', "layercast"),
                ("apps/cli/main.cpp", 'const char* kNames = "layercast, bf16";', "layercast"),
                ("apps/cli/main.cpp", 'json["times_layercast"] = 1;', "layercast"),
                ("apps/cli/main.cpp", 'bool f() { return text == "no place for exact-2 here"; }', "exact-2"),
                ("apps/cli/main.cpp", 'bool f() { return text.starts_with("contract exact-2 ("); }', "exact-2"),
                ("bench/linear_schedules.cpp", "bool f() { return numerics == reference::kLinearExact1.name; }", "kLinearExact1"),
                ("fuzz/linear_compare.cpp", "bool f() { return contract.linear != &reference::kLinearInt16; }", "kLinearInt16"),
                ("fuzz/linear_compare.cpp", "bool f() { return kCacheF32.name == cache.name; }", "kCacheF32"),
                ("bench/linear_schedules.cpp", "constexpr Sweep kSweeps[] = {{reference::kLinearInt16.name, run}};", "kLinearInt16"),
                ("fuzz/linear_compare.cpp", "constexpr PassedOver kTables[] = {{&reference::kLinearExact1, run}};", "kLinearExact1"),
                ("src/ops/linear.cpp", "using reference::kLinearFma1;", "kLinearFma1"),
                ("src/model/model.cpp", "const auto cache = find(kCacheBf16.name);", "kCacheBf16"),
                ("src/model/model.cpp", "using namespace kernels::reference;", "reference"),
                ("src/kernels/cpu/backend.cpp", "bool f() { return scheme.name == reference::kLinearFma1.name; }", "kLinearFma1"),
                ("src/kernels/backend.cpp", 'constexpr Row kRow{.default_numerics = "fma-1"};', "fma-1"),
                ("apps/cli/main.cpp", "bool f() { return numerics == kDefaultNumerics; }", "kDefaultNumerics"),
                ("apps/cli/study_demo_command.cpp", 'bool f() { return numerics == "fma-1"; }', "fma-1"),
                ("tools/performance_tables.py", 'TITLES = {"sgemm": "SGEMM"}', "sgemm"),
                ("tools/performance_tables.py", 'chosen = [row for row in rows if row["numerics"] in ("bf16",)]', "bf16"),
                ("apps/cli/main.cpp", 'bool f() { return numerics == "bf16"; }', "bf16"),
                ("models/study/summary.py", "ratio = row['times_layercast']", "layercast"),
                ("models/study/summary.py", "text = f\"{rates['layercast']:.2f} times\"", "layercast"),
                ("models/study/summary.py", "text = f\"{table([of(group, 'sgemm') for group in {1: '{0} of {1}'}])}\"", "sgemm"),
                ("models/study/run_study.py", 'print("layercast" in methods)', "layercast"),
                ("models/train/train.py", "layercast = True", "layercast"),
                ("web/report/speed.js", 'const shown = (row) => row.numerics !== "bf16";', "bf16"),
                ("web/report/speed.js", "const times = (row) => row.layercast_ratio;", "layercast"),
                ("web/report/speed.js", "const colors = { sgemm: 1 };", "sgemm"),
                ("web/app.js", "const is_default = `${name}` === 'int16-1';", "int16-1"),
                ("examples/compare_devices.cpp", 'bool f() { return name == "exact-1"; }', "exact-1"),
                ("deploy/check_replicas.py", 'print(numerics == "exact-2")', "exact-2"),
                ("packaging/postinst", '[ "$numerics" = "fma-1" ] && echo', "fma-1"),
                ("tools/make_receipts.sh", '[[ $contract == "exact-1" ]] && echo', "exact-1"),
                ("tools/make_receipts.sh", "case $contract in\n  fma-1) echo ;;\nesac", "fma-1")):
            with self.subTest(text):
                line = 1 + text.startswith("case")
                self.assertEqual(self.told_of(path, text), [f"{path}:{line} names '{name}': ask the contract for a fact instead"])

    def test_what_compares_nothing_is_not_told(self):
        for path, text in (("apps/cli/main.cpp", 'bool f() { return weights == "bf16"; }'),
                           ("apps/cli/main.cpp", '// name == "exact-1"'),
                           ("apps/cli/main.cpp", 'fail("contract exact-1 takes no more than {} terms", most);'),
                           ("src/kernels/cpu/backend.cpp", "constexpr Row kRow{reference::kLinearExact1.name, nullptr};"),
                           ("src/kernels/cpu/linear/exact1/simd.cpp", "static_assert(kLinearExact1.terms <= kMaxExactTerms);"),
                           ("apps/cli/study_demo_command.cpp", 'constexpr const char* kMore = "int16-1,exact-2";'),
                           ("models/study/run_study.py", 'MORE = ("int16-1", "exact-2")'),
                           ("tools/performance_tables.py", '"""Where `exact-1` == "exact-1"."""'),
                           ("web/report/paper.js", "const flips = { layercast: 1 };"),
                           ("tools/make_receipts.sh", "for contract in fma-1 exact-1; do :; done")):
            with self.subTest(text):
                self.assertEqual(self.told_of(path, text), [])


if __name__ == "__main__":
    unittest.main()
