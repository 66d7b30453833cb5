// What `study compare` computes of one or several tasks, and measurements from elsewhere, as one page that needs no
// network. docs/study.md describes it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.hpp"
#include "study/runs/compare_runs.hpp"

namespace reprofuse::study {

nlohmann::ordered_json to_json(const MethodResult& method);
nlohmann::ordered_json to_json(const Run& run);  // where and how it was made; not its answers

// Runs of the same model and task, and what differs between them.
struct ReportGroup {
  std::vector<Run> runs;
  std::vector<MethodResult> methods;
};
// In the order of the runs. Throws kInvalidArgument, with the reason, where runs of a group cannot be compared.
std::vector<ReportGroup> compare_by_task(std::vector<Run> runs);

// Results of other commands, by file: `bench linear` or `bench engine`, `study memory`, `ablate`.
struct ReportFiles {
  std::vector<std::string> benches = {}, memory = {}, ablations = {};
};

// Throws kInvalidArgument, with the reason, for a file that holds something else than it should.
std::string report_page(std::span<const ReportGroup> groups, const ReportFiles& files, const std::string& version);

// The page without its data: the files of web/report/ and the library that draws, carried in the binary
// (cmake/EmbedAssets.cmake). "/index.html", and the files that it names. None: there is no such file.
std::optional<Asset> report_asset(std::string_view path);

}  // namespace reprofuse::study
