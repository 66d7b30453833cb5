// The commands of the tool. Each function adds one to the command line, with what it runs.
#pragma once

#include <CLI/CLI.hpp>

namespace reprofuse::cli {

inline constexpr const char* kVersion = REPROFUSE_VERSION;  // as CMake's project() declares it

void add_generate_command(CLI::App& app);  // an answer to a prompt, or to each line of a file
void add_verify_command(CLI::App& app);    // whether receipts are true, by computing their answers again
void add_keys_command(CLI::App& app);      // keys that sign receipts
void add_serve_command(CLI::App& app);   // the OpenAI API and a page, over HTTP; nothing in a build without the server
void add_probe_command(CLI::App& app);   // digests of this machine beside the committed ones
void add_ablate_command(CLI::App& app);  // what each rule of the contract is worth, one rule switched off at a time
void add_stress_command(CLI::App& app);  // many requests under many schedules; none may change a bit
void add_study_command(CLI::App& app);   // how often answers differ between machines and runs
void add_trace_command(CLI::App& app);   // what every op of some steps left
void add_diff_command(CLI::App& app);    // the first op where two traces, devices or numerics differ
void add_info_command(CLI::App& app);    // numerics, devices, and a model's card

void add_study_memory_command(CLI::App& study);  // what memory each method takes to serve a model

void add_bench_linear_command(CLI::App& bench);  // how fast the linear layer is
void add_bench_model_command(CLI::App& bench);   // how fast whole models decode
void add_bench_engine_command(CLI::App& bench);  // how fast the serving engine answers many requests at once
void add_bench_error_command(CLI::App& bench);   // how far results are from exact ones

void add_study_compare_command(CLI::App& study);  // what differs between runs, as tables or JSON
void add_study_report_command(CLI::App& study);   // the same as one page
void add_study_demo_command(CLI::App& study);     // a small study of the bundled model on this machine, as a page

}  // namespace reprofuse::cli
