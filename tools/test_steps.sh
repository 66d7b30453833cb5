# Sourced by ./run-tests: the steps. Each one calls `record` once per test; a step that stops early counts as failed.
# shellcheck shell=bash disable=SC2034

TEST_PACKAGES=(
  libgtest-dev python3 pkg-config binutils util-linux            # unit tests, install test, symbol check
  dpkg-dev file                                                  # the Debian package
  libcpp-httplib-dev                                             # the client of the server's tests
  openssl python3-jsonschema                                     # what receipts are checked with, by others
  libmpfr-dev python3-jinja2                                     # what elementary functions and templates are held against
  libopenblas0-pthread                                           # the baseline of `reprofuse bench linear`
  g++-aarch64-linux-gnu g++-s390x-linux-gnu qemu-user                 # other machines
  clang-format clang-tidy                                        # style
)
# The GPU code of a build that is made for the tests: of the GPU that golden digests were seen on, and what any other since 8.0
# translates for itself. A build/ that is there is tested as it is.
TEST_ARCHITECTURES="90-real;80-virtual"
LOGS=$PWD/build/logs
RESULTS=$LOGS/results.tsv

declare -A ABOUT=(
  [format]="clang-format agrees with every source, and none is too long"
  [float-flags]="floating-point flags are set in one file"
  [layers]="includes go one way; contracts are named in their tables alone"
  [release]="build with warnings as errors, all tests, each fuzz target for some seconds"
  [asan]="the tests and the fuzz targets under AddressSanitizer and UndefinedBehaviorSanitizer"
  [tsan]="the tests with threads under ThreadSanitizer"
  [aarch64]="linear layers and an answer on AArch64 under qemu, scalar and NEON; models, NEON alone; what the kernels are made of"
  [s390x]="linear layers and an answer on s390x under qemu: scalar, big-endian"
  [alone]="on request: each source compiles by itself; the other steps compile many at once"
  [s390x-models]="on request: whole models on s390x under qemu, which other steps compute on x86 by the same code"
  [riscv64]="on request: linear layers and an answer on RISC-V under qemu: scalar"
  [bare]="on request, as root: quickstart, run-tests and the package in a bare Debian 12 root; REPROFUSE_BARE_STEPS names some steps"
  [mutants]="on request: small changes that break the program, and whether a test notices each; about an hour of processor time"
  [gpu-audit]="every instruction of the CUDA kernels, for the architectures of the build"
  [gpu-all]="on request: the CUDA kernels for every architecture that packages have, and their audit"
  [tidy]="clang-tidy"
)
STEPS=(format float-flags layers release gpu-audit asan tsan aarch64 s390x tidy)
ON_REQUEST=(gpu-all s390x-models riscv64 alone bare mutants)

record() { printf '%s\t%s\t%s\n' "$1" "$2" "${3-}" >>"$RESULTS"; }

# check NAME COMMAND...: one test that is a command.
check() {
  local name=$1
  shift
  if quietly "$LOGS/${name// /-}.log" "$@"; then
    record passed "$name"
  else
    record failed "$name" "see ${LOGS#"$PWD"/}/${name// /-}.log"
  fi
}

# soon COMMAND...: in the background, as many at once as there are cores; `wait` waits for the last ones.
soon() {
  while [[ $(jobs -rp | wc -l) -ge $(cores) ]]; do wait -n || true; done
  "$@" &
}

step_format() {
  mapfile -t files < <(find apps bench fuzz include src tests -name node_modules -prune -o \
    -regex '.*\.\(cpp\|hpp\|h\|c\|cu\|cuh\)' -print)
  check format clang-format --dry-run --Werror "${files[@]}"
  check file-sizes tools/check_file_sizes.py
}

step_float-flags() { check float-flags tools/check_float_flags.sh; }

step_layers() {
  check layers tools/check_layers.py
  check contract-names tools/check_contract_names.py
}

# The sanitizers of g++ 12 cannot cope with the large address-space randomisation of newer kernels.
without_aslr() {
  if setarch -R true 2>/dev/null; then
    setarch -R "$@"
  else
    "$@"
  fi
}

# Tests that take three seconds or more under AddressSanitizer with two cores, and whose code shorter ones run there.
LONG_UNDER_ASAN=(
  BenchErrorCommand.WritesTheSeededRowsAndTheModels
  BenchUsage.AFileThatCannotBeWrittenIsAnErrorBeforeAnythingIsMeasured
  Cases/ModelInvariance.EveryContractGivesItsCommittedDigestOnEveryInstructionSet/mistral_window
  Cases/ModelInvariance.EveryContractGivesItsCommittedDigestOnEveryInstructionSet/qwen2_bias
  JsonWriter.NumbersHaveTheDigitsThatDumpGivesThem
  TokenizerLimits.EncodingAsksNowAndThenWhetherToGoOn
  EngineTest.AStopStringEndsTheTextWhereverItLies
  Generate.TheGoldenAnswerComesOutOfEveryInstructionSet
  GenerateInput.SpecialTokensInWhatAUserWritesAreTokensOrPlainText
  GenerateText.HowItIsComputedMovesNoBit
  GenerateText.BaselinesRunTheSameModel
  BenchErrorCommand.TheTableOfContractsIsTheSameForEveryIsa
  ProbeCommand.QuickCheckPasses
  ExpSimd.EveryInstructionSetHasTheScalarBits
  ProbeRows.RowBitsDoNotDependOnBatchSizeOnAnyIsa
  BenchCommand.MeasuresEveryBatchSizeAndWritesThemAsJson
  Cases/ModelInvariance.EveryInstructionSetAndThreadCountGivesTheSameBits/mistral_window
  ApiBody.MemoryIsAskedForBeforeItIsTaken
  ApiBody.WhatNobodyReadsTakesNeitherTimeNorMemory
  EngineFairness.AClientWithManyRequestsHoldsUpItsOwnAndNotThoseOfOthers
  EngineOracle.APenaltyIsForTheTokensOfItsOwnText
  EngineOracle.EveryScheduleGivesTheAnswersOfThePlainLoop
  OutOfMemory.EndsAnswersWithAnErrorAndTheServiceGoesOn
  ReceiptCommand.GoldenReceiptsOfEveryDeviceAreTrueHere
  VerifyCommand.RepliesOfAServerAreTrueOnEveryInstructionSet
  ReplayTest.EveryBitOfTheEnvelopeAndOfThePayloadIsUnderTheSignature
  ParseJson.TakesTimeThatGrowsWithTheTextAlone
  ParseJson.TheControlThatLooksThroughListsAgainGrowsQuadratically
  TokenizerLimits.ALongTextIsGivenUpSoon
  TokenizerPattern.TakesLongTextsOfAnythingWithPublishedPatterns
  StudyCommand.RunsAreComparedAndAContractDoesNotMove
  StudyCommand.TheDemoWritesAReportOfFourPlatformsAndTwoTasks
  fuzz.linear.self_test
  fuzz.model_ops.self_test
)
# The same under ThreadSanitizer, where all that counts is which threads meet, and not with which sizes or models.
LONG_UNDER_TSAN=(
  AnswersWithoutMemory.AreA503AndStreamsNeedLittle
  Digits/AttentionIntegerCpu.ARowHasTheSameBitsInEveryCutAndOnEveryPage/0
  Digits/AttentionIntegerCpu.ARowHasTheSameBitsInEveryCutAndOnEveryPage/1
  Digits/AttentionIntegerCpu.BitsDoNotDependOnThreadsOrTheirShareOfTheKeys/1
  Cases/ModelInvariance.EveryContractGivesItsCommittedDigestOnEveryInstructionSet/llama_f32
  Cases/ModelInvariance.EveryContractGivesItsCommittedDigestOnEveryInstructionSet/llama_tied
  Cases/ModelInvariance.EveryContractGivesItsCommittedDigestOnEveryInstructionSet/qwen2_tied_f16
  LinearExact1Limits.TheLargestDigitsOverTheLongestRowsDoNotOverflow
  LinearInt16Cpu.EveryTableGivesTheReferenceBitsAtRaggedShapes
  OwnBackend.GivesTheCommittedLogitsOfEveryContract
  RandomCheckpoint.MatricesKeepTheSizeOfWhatTheyMultiply
  TokenizerLimits.ALongTextIsGivenUpSoon
  TokenizerLimits.AListOfValuesWithoutEndIsRefusedWhileItIsRead
  TokenizerLimits.EncodingAsksNowAndThenWhetherToGoOn
  ParseJson.TakesTimeThatGrowsWithTheTextAlone
  ParseJson.TheControlThatLooksThroughListsAgainGrowsQuadratically
  Cases/ModelInvariance.EveryInstructionSetAndThreadCountGivesTheSameBits/mistral_window
  EngineFairness.AFloodOfUrgentRequestsPassesNobodyForMorePassesThanAllowed
  EngineFairness.AFloodOfUrgentRequestsTakesNoMoreThanItsClientsQuota
  EngineFairness.EverMoreUrgentRequestsOfOneClientDoNotMakeAnotherBeginAnew
  EngineFairness.EveryPromptThatRunsHasARowOfEachPassHoweverManyRunBeforeIt
  EngineTest.AForcedAnswerIsTakenWhateverTheSamplerWouldChoose
  EngineTest.AKnownAnswerSavesPassesAndChangesNothing
  Cases/ModelInvariance.ChunksPagesAndCompanionsMoveNoBit/llama_f32
  Cases/ModelInvariance.ChunksPagesAndCompanionsMoveNoBit/qwen2_tied_f16
  Trace.IsTheSameOnEveryInstructionSetAndInAnyPasses
  EngineFailures.AGuessThatFailsDoesNotFailTheAnswer
  EngineFairness.APromptTakesItsPassesAtMostWhateverPromptsComeBeforeIt
  EngineFailures.AClientWhoseRequestsFailCostsTheOthersOnePassAtATime
  EngineFairness.AClientWithManyRequestsHoldsUpItsOwnAndNotThoseOfOthers
  EngineFairness.ClientsHaveEqualPartsOfThePassesWhenAllHaveEnoughToAsk
  EngineFairness.ClientsHaveEqualPartsOfTheRowsWhateverPromptsEachHas
  EngineFailures.ARequestThatFailsCostsTheOthersOnePass
  EngineFailures.AValueThatIsNotFiniteFailsItsOwnRequestAloneAndInAnyScheduleAlike
  EngineFairness.LogprobsOfOnePromptDoNotHoldUpThoseOfAnother
  EngineFairness.PrefixesAreSharedWithinASaltAndNotBeyond
  EngineOracle.APenaltyIsForTheTokensOfItsOwnText
  EngineOracle.AnotherRequestHasAnotherPlainAnswer
  EngineOracle.APageThatWasDroppedForAnotherTextIsComputedAgain
  EngineOracle.APreemptedJobGoesOnAtTheTokenWhereItWas
  EngineOracle.EveryScheduleGivesTheAnswersOfThePlainLoop
  EngineOracle.GuessesCountAsFarAsTheyAreRightAndNoFurther
  EngineOracle.GuessesNeedNoRoomBeyondTheLastToken
  EngineOracle.ThePageOfTheLastTokenOfAPromptIsNeverTakenFromTheCache
  EngineOracle.WrongGuessesLeaveNothingInPagesThatAreKept
  EngineTest.GivesTheGoldenAnswer
  LinearCpu.EveryIsaGivesTheReferenceBitsAtRaggedShapes
  LinearExact1Cpu.EveryTableGivesTheReferenceBitsAtRaggedShapes
  SampleCpu.ANucleusEndsWhereItsShareIsReachedExactly
  RotaryCpu.EveryIsaGivesTheReferenceBits
  SeededErrors.AnotherOrderShows
  SeededErrors.AreThoseThatTheArithmeticMustHave
  SeededErrors.OfAContractAreItsReferencesOnEveryIsa
  ServedModelTest.WhateverDecidesAnAnswerIsInTheFingerprint
  ServiceTest.WhatCannotBeTakenIsRefusedWithTheReason
)
LEFT_OUT=()  # tests that the step does not run

# The implementations that text is compared with, the clients that the server is asked by, and the browser that shows its
# page. Without them their tests are skipped, and say so; what others gave for texts once is committed and always compared.
install_npm_packages() {
  (ensure_packages "tests of the server's page" chromium fonts-dejavu-core curl) || true
  command -v npm >/dev/null || (ensure_packages "comparisons of text and clients of the server" nodejs npm) || return 0
  local folder
  for folder in tests/text/npm tests/server/clients tests/server/page; do
    quietly "$LOGS/npm-${folder//\//-}.log" \
      timeout 180 npm ci --ignore-scripts --no-audit --no-fund --prefix "$folder" ||
      say "the npm packages of $folder could not be installed, so its tests are skipped"
  done
}

# What stands before replicas of the server, and what checks the files in deploy/. Debian starts the proxies that it installs; the
# tests start their own.
install_proxies() {
  local service new
  mapfile -t new < <(missing_packages haproxy nginx)
  (ensure_packages "tests of replicas" haproxy nginx python3-kubernetes systemd) || return 0
  for service in "${new[@]}"; do
    if [[ -d /run/systemd/system ]]; then
      as_root systemctl --quiet disable --now "$service" || true
    else
      as_root "/etc/init.d/$service" stop >/dev/null || true
    fi
  done
}

# install_for STEP: what this step needs beyond the packages of all.
install_for() {
  case $1 in
    release)
      install_npm_packages
      install_proxies
      ;;
    riscv64) ensure_packages "the step riscv64" g++-riscv64-linux-gnu ;;
    bare) ensure_packages "the step bare" debootstrap ;;
  esac
}

# await_build PRESET: waits for tools/build_ahead.sh, and fails where the build did, or never came to be.
await_build() {
  until [[ -f $LOGS/$1.built ]] || ! kill -0 "$builder" 2>/dev/null; do sleep 0.2; done
  [[ $(cat "$LOGS/$1.built" 2>/dev/null) == well ]]
}

# run_ctest PRESET [WRAPPER]: runs the tests of a preset, but for those in LEFT_OUT.
run_ctest() {
  local preset=$1
  shift
  await_build "$preset"
  rm -f "$LOGS/$preset.xml"
  local names name
  names=$(ctest --preset "$preset" --show-only)
  for name in "${LEFT_OUT[@]}"; do
    [[ $names == *": $name"$'\n'* ]] || record failed "$preset $name" "no test of that name could be left out"
  done
  names=$(IFS='|' && echo "${LEFT_OUT[*]-none}")
  "$@" ctest --preset "$preset" --exclude-regex "^(${names//./\\.})\$" --parallel "$(cores)" \
    --output-junit "$LOGS/$preset.xml" >"$LOGS/$preset.log" 2>&1 || true
  python3 tools/ctest_results.py "$preset" "$LOGS/$preset.xml" >>"$RESULTS"
}

# record_left_out PRESET REASON
record_left_out() {
  local name
  for name in "${LEFT_OUT[@]}"; do record skipped "$1 $name" "$2"; done
}

step_release() { run_ctest release; }
step_asan() {
  LEFT_OUT=("${LONG_UNDER_ASAN[@]}")
  run_ctest asan without_aslr
  record_left_out asan "too long under AddressSanitizer; shorter tests run its code there"
}
step_tsan() {
  LEFT_OUT=("${LONG_UNDER_TSAN[@]}")
  run_ctest tsan without_aslr
  record_left_out tsan "too long under ThreadSanitizer; shorter tests run its threads there"
}

# compare_elsewhere ARCH ISA [--models]: what the tool for another machine computes under qemu, compared with golden/.
# Emulated arithmetic is slow, so the linear cases with 256 rows are left out: row invariance has batches up to 65. Scalar
# code computes the probe's models on x86 in the step release; elsewhere it is left with linear layers of every weight type and
# an answer.
# Each run has one thread, and there are as many runs at once as cores.
compare_elsewhere() {
  local arch=$1 isa=$2 cases='decode-*,ragged-*' numerics
  shift 2
  local tool=("qemu-$arch" "build-$arch/bin/reprofuse")
  # `exact-1` differs in its linear layers alone; the other operations of a model are probed under `fma-1`. `exact-2` differs
  # from `exact-1` in attention alone, which its answer is by.
  soon check "$arch $isa" "${tool[@]}" probe --quick --check --threads 1 --isa "$isa" --cases "$cases" "$@"
  for numerics in exact-1 int16-1; do
    soon check "$arch $isa $numerics" "${tool[@]}" probe --quick --check --threads 1 --isa "$isa" --numerics "$numerics" \
      --cases "$cases"
  done
  for numerics in fma-1 exact-1 exact-2 int16-1; do
    soon check "$arch $isa $numerics answer" "${tool[@]}" verify --threads 1 --isa "$isa" "golden/receipts/reply-$numerics.json"
  done
}

step_aarch64() {
  await_build aarch64
  compare_elsewhere aarch64 neon --models
  compare_elsewhere aarch64 scalar
  # qemu has every extension unless it is told otherwise.
  soon check "aarch64 neon int16-1 without SDOT" qemu-aarch64 -cpu cortex-a72 build-aarch64/bin/reprofuse probe --quick --check \
    --threads 1 --isa neon --numerics int16-1 --cases 'decode-*,ragged-*'
  soon check "aarch64 neon exact-2 answer without SDOT" qemu-aarch64 -cpu cortex-a72 build-aarch64/bin/reprofuse verify --threads 1 \
    --isa neon golden/receipts/reply-exact-2.json
  soon check "aarch64 instructions" python3 tests/kernels/cpu_instructions_test.py aarch64-linux-gnu-objdump \
    build-aarch64/src/libreprofuse_core.a
  wait
}
step_s390x() {
  await_build s390x
  compare_elsewhere s390x scalar
  wait
}
step_s390x-models() {
  await_build s390x
  check "s390x scalar models" qemu-s390x build-s390x/bin/reprofuse probe --quick --check --isa scalar --cases 'ragged-*' --models
}
step_riscv64() {
  await_build riscv64
  compare_elsewhere riscv64 scalar
  wait
}

# audit BUILD: its PTX for each architecture that it was configured for, and its machine code.
audit() {
  local build=$1 architectures
  architectures=$(sed -n 's/^REPROFUSE_CUDA_ARCHITECTURES:STRING=//p' "$build/CMakeCache.txt" | grep -oE '[0-9]+' | sort -nu |
    paste -sd ,)
  check "gpu-audit ptx $architectures" python3 tools/audit_gpu_code.py ptx --build "$build" --architectures "$architectures" &
  if command -v cuobjdump >/dev/null || [[ -x /usr/local/cuda/bin/cuobjdump ]]; then # each has one thread
    check "gpu-audit sass" python3 tools/audit_gpu_code.py sass "$build/bin/reprofuse"
  else
    record skipped "gpu-audit sass" "cuobjdump was not found"
  fi
  wait "$!"
}
step_gpu-audit() {
  await_build release
  local cuda
  cuda=$(cuda_status build)
  if [[ $cuda != ON:* ]]; then
    record skipped "gpu-audit" "there is no GPU code to look at (${cuda#OFF: })"
    return 0
  fi
  audit build
  if grep -qx "REPROFUSE_CUDA_ARCHITECTURES:STRING=$TEST_ARCHITECTURES" build/CMakeCache.txt; then
    record skipped "gpu-audit of other architectures" \
      "this build has GPU code for $TEST_ARCHITECTURES alone; ./run-tests gpu-all compiles all"
  fi
}
step_gpu-all() {
  quietly "$LOGS/gpu-all-configure.log" cmake --preset release -B build-gpu-all -DREPROFUSE_TESTS=OFF -DREPROFUSE_FUZZ=OFF
  local cuda
  cuda=$(cuda_status build-gpu-all)
  if [[ $cuda != ON:* ]]; then
    record skipped "gpu-all" "there is no GPU code to compile (${cuda#OFF: })"
    return 0
  fi
  check "gpu-all" cmake --build build-gpu-all --target reprofuse --parallel "$(cores)"
  audit build-gpu-all
}

step_alone() {
  quietly "$LOGS/alone-configure.log" cmake --preset debug -DREPROFUSE_CUDA=OFF
  check "alone" cmake --build --preset debug --parallel "$(cores)"
}

# What a new machine would do, with nothing but what Debian has. Its results count here, too, with "bare" before their names,
# and its logs are in build/logs/bare.
BARE_ROOT=$PWD/build-bare/root
BARE_PACKAGE_ROOT=$PWD/build-bare/package-root
leave_bare() {
  rm -rf "$LOGS/bare"
  cp -r "$BARE_ROOT/reprofuse/build/logs" "$LOGS/bare" || true
  rm -rf "$BARE_ROOT" "$BARE_PACKAGE_ROOT"
}
step_bare() {
  trap leave_bare EXIT
  quietly "$LOGS/bare-make.log" tools/bare.sh make "$BARE_ROOT"
  tools/bare.sh copy "$BARE_ROOT"
  check "bare quickstart" tools/bare.sh run "$BARE_ROOT" ./quickstart
  # shellcheck disable=SC2086  # steps are words
  check "bare run-tests" tools/bare.sh run "$BARE_ROOT" ./run-tests ${REPROFUSE_BARE_STEPS-}
  sed 's/\t/\tbare /' "$BARE_ROOT/reprofuse/build/logs/results.tsv" >>"$RESULTS"
  check "bare package" tools/bare.sh package "$BARE_ROOT" "$BARE_PACKAGE_ROOT"
}

step_mutants() {
  check mutants python3 tools/mutants/mutants.py
  grep 'mutants were killed' "$LOGS/mutants.log" || true
}

step_tidy() {
  quietly "$LOGS/tidy-configure.log" cmake --preset tidy
  check tidy tools/run_clang_tidy.sh build-tidy
}
