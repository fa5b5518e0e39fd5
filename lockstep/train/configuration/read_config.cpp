// The making of a ResolvedRun: values from a file, a text or a program, with the parts that they name. Foreign keys are
// replaced in the YAML tree, before the sections are read. An error of a rule between keys gets a file and line by a
// search in its text for words that are keys of the file.
#include <lockstep/base/config_reader.h>
#include <lockstep/base/error.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/config_keys.h>
#include <lockstep/train/keys/foreign_tables.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/modes/wrapper.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/plugins/load.h>
#include <lockstep/train/program.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

/// Takes the entry out of the map; nullopt when there is no entry of that name.
std::optional<ConfigNode> take(ConfigNode& map, std::string_view key) {
  const auto found = std::ranges::find(map.entries, key, &ConfigNode::Entry::key);
  if (map.kind != ConfigNode::Kind::map || found == map.entries.end()) return std::nullopt;
  auto value = std::move(found->value);
  map.entries.erase(found);
  return value;
}

ConfigNode* find(ConfigNode& map, std::string_view key) {
  const auto found = std::ranges::find(map.entries, key, &ConfigNode::Entry::key);
  return found == map.entries.end() ? nullptr : &found->value;
}

std::optional<ConfigNode> take_path(ConfigNode& root, std::string_view path) {
  const auto dot = path.find('.');
  if (dot == std::string_view::npos) return take(root, path);
  auto* section = find(root, path.substr(0, dot));
  return section == nullptr ? std::nullopt : take(*section, path.substr(dot + 1));
}

ConfigNode& section_of(ConfigNode& root, const AcceptedKey& name, const FilePosition& position) {
  auto* section = find(root, name.section);
  if (section != nullptr && section->kind == ConfigNode::Kind::map) return *section;
  if (section == nullptr) return root.entries.emplace_back(std::string(name.section), make_section(position)).value;
  if (section->kind == ConfigNode::Kind::null) return *section = make_section(position);
  throw Error(
      ErrorKind::config, "config",
      fmt::format("{}: expected a section with 'key: value' lines, found {}", name.section, describe_found(*section)),
      section->position);
}

void rename_value(const AcceptedKey& name, ConfigNode& value) {
  std::string lower = value.scalar;
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  for (const auto& [there, ours] : name.values) {
    if (!there.empty() && value.kind == ConfigNode::Kind::scalar && lower == there) value.scalar = ours;
  }
}

/// MMEngine's auto_scale_lr: {enable, base_batch_size} becomes optimizer.base_batch_size, if it is enabled.
void take_auto_scale_lr(ConfigNode& root) {
  auto theirs = take(root, "auto_scale_lr");
  if (!theirs || theirs->kind == ConfigNode::Kind::null) return;
  const auto* enable = theirs->find("enable");
  const auto* base = theirs->find("base_batch_size");
  const bool known = std::ranges::all_of(
      theirs->entries, [](const auto& entry) { return entry.key == "enable" || entry.key == "base_batch_size"; });
  if (theirs->kind != ConfigNode::Kind::map || base == nullptr || !known) {
    throw Error(ErrorKind::config, "config",
                "auto_scale_lr: expected {enable: true, base_batch_size: SAMPLES}, here optimizer.base_batch_size",
                theirs->position);
  }
  if (enable == nullptr || enable->scalar != "true") return;
  auto& section = section_of(root, {"auto_scale_lr", "optimizer", "base_batch_size"}, theirs->position);
  section.entries.push_back({"base_batch_size", *base});
}

/// MindOCR's files have other sections, in which nearly every key has another name.
void refuse_file_of_mindocr(const ConfigNode& root) {
  const auto* train = root.find("train");
  if (train == nullptr) return;
  for (const auto* key : {"loader", "dataset"}) {
    const auto* section = train->find(key);
    if (section == nullptr || section->kind != ConfigNode::Kind::map || section->position.line == 0) continue;
    const std::string& file = section->position.file;
    throw Error(ErrorKind::config, "config",
                fmt::format("train.{} makes this a configuration of MindOCR; translate it first: lockstep convert "
                            "mindocr {} --out run.yaml, then lockstep train --config run.yaml",
                            key, file),
                section->position);
  }
}

}  // namespace

ConfigNode with_own_names(ConfigNode root) {
  refuse_file_of_mindocr(root);
  take_auto_scale_lr(root);
  for (const auto& name : accepted_keys()) {
    auto value = take_path(root, name.there);
    if (!value) continue;
    auto& section = section_of(root, name, value->position);
    if (const auto* ours = section.find(name.key)) {
      throw Error(
          ErrorKind::config, "config",
          fmt::format("{} is a synonym of {}.{}, which is also given ({}); remove one of them", name.there,
                      name.section, name.key,
                      ours->position.line > 0 ? fmt::format("line {}", ours->position.line) : ours->position.file),
          value->position);
    }
    rename_value(name, *value);
    section.entries.push_back({std::string(name.key), std::move(*value)});
  }
  return root;
}

namespace {

/// The words of a text that can be keys, such as "optimizer.lr", without a full stop at the end.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  for (auto& word : words) {
    while (word.ends_with('.')) word.pop_back();
  }
  return words;
}

const ConfigNode* node_at(const ConfigNode& root, std::string_view path) {
  const ConfigNode* node = &root;
  for (std::size_t begin = 0; node != nullptr && begin <= path.size();) {
    const auto end = std::min(path.find('.', begin), path.size());
    node = node->find(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return node;
}

}  // namespace

Error with_place(const Error& error, const ConfigNode& given) {
  if (error.kind() != ErrorKind::config || !error.position().file.empty()) return error;
  const auto placed = [&](const ConfigNode& node) {
    return Error(error.kind(), error.where(), error.message(), node.position);
  };
  const ConfigNode* first_section = nullptr;
  std::string section;
  for (const auto& word : words_of(error.where() + " " + error.message())) {
    const auto dot = word.rfind('.');
    if (dot != std::string::npos) {
      section = word.substr(0, dot);
      if (const auto* node = node_at(given, word)) return placed(*node);
      if (first_section == nullptr) first_section = node_at(given, section);
    } else if (!section.empty() && !word.empty()) {
      // Of "parallel.plan, cluster and memory_limit_mb", the second is in the section of the first.
      if (const auto* node = node_at(given, section + "." + word)) return placed(*node);
    }
  }
  return first_section == nullptr ? error : placed(*first_section);
}

namespace {

constexpr std::string_view kOwnProgram = "# of a run of the program ";

/// The section belongs to a program with its own model, whose runs write such files.
void refuse_own_section(const ConfigSource& source, const std::filesystem::path& path) {
  const auto* section = source.root.find("program");
  if (section == nullptr) return;
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  const bool named = line.starts_with(kOwnProgram);
  const auto program = named ? line.substr(kOwnProgram.size()) : std::string("PROGRAM");
  throw Error(
      ErrorKind::config, "config",
      fmt::format("this is the configuration of a program with a model of its own{}: use that in place of lockstep; "
                  "if its main function is train_main(), '{} eval --weights DIR' with the folder of a run",
                  named ? ", " + program : "", program),
      section->position);
}

}  // namespace

ResolvedRun::ResolvedRun() : parts(shared_shipped_parts()) {}

ResolvedRun::ResolvedRun(RunConfig values, std::shared_ptr<const Parts> known)
    : RunConfig(std::move(values)), parts(known ? std::move(known) : shared_shipped_parts()) {
  require_makers(*parts);
  parts = with_plugins(parts, RunConfig::plugins);
}

std::string own_program_line(const std::string& program) { return fmt::format("{}{}\n", kOwnProgram, program); }

std::shared_ptr<const Parts> load_parts(const std::filesystem::path& path, std::span<const std::string> overrides,
                                        std::shared_ptr<const Parts> parts) {
  auto source = load_config(path, overrides);
  return with_plugins(std::move(parts), source);
}

ResolvedRun read_run_config(const ConfigSource& source, ResolvedRun run) {
  const auto given = with_own_names(source.root);
  run.without_effect.clear();
  read_fields(given, "", refused_words(), [&](ConfigFields& fields) { describe(fields, run); });
  try {
    apply_wrapper(run);
    run.origins = fmt::format("{}{}", describe_origins(source), fmt::join(run.without_effect, ""));
    auto& data = run.data;
    if (!data.batch_size && !data.global_batch_size) data.batch_size = kDefaultBatchSize;  // so that it is shown
    lockstep::expand_home([&](ConfigFields& fields) { describe(fields, run); });
    check_run_config(run);
  } catch (const Error& error) {
    throw with_place(error, given);
  }
  run.given = given;
  if (run.has_own_model) run.program.looked_at = std::make_shared<bool>(false);
  return run;
}

ResolvedRun load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return load_run_config(path, overrides, nullptr);
}

ResolvedRun load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides,
                            std::shared_ptr<const Parts> parts) {
  auto source = load_config(path, overrides);
  refuse_own_section(source, path);
  return read_run_config(source, ResolvedRun({}, with_plugins(std::move(parts), source)));
}

ResolvedRun load_program_config(RunConfig defaults, const std::optional<std::filesystem::path>& path,
                                std::span<const std::string> overrides) {
  auto source = path ? load_config(*path, overrides) : parse_config("{}", "the program", overrides);
  if (source.root.find("plugins") != nullptr) defaults.plugins.clear();
  ResolvedRun run(std::move(defaults), with_plugins(nullptr, source));
  run.has_own_model = run.has_own_data = true;
  if (run.model.name.empty()) run.model.name = "own";
  if (run.data.name.empty()) run.data.name = "own";
  return read_run_config(source, std::move(run));
}

ResolvedRun parse_run_config(const std::string& yaml, const Program& program, std::span<const std::string> overrides) {
  auto source = parse_config(yaml, "the program", overrides);
  return read_run_config(source, resolved_for(program, ResolvedRun({}, with_plugins(nullptr, source))));
}

ResolvedRun resolved_for(const Program& program, ResolvedRun run) {
  if (program.model && !program.is_configured) run.has_own_model = true;
  if (program.data && !program.is_configured) run.has_own_data = true;
  if (run.has_own_model && run.model.name.empty()) run.model.name = program.name;
  if (run.has_own_data && run.data.name.empty()) run.data.name = program.name;
  if (program.optimizer) set_own_optimizer(run, program.optimizer);
  apply_wrapper(run);  // again, because a program may have chosen it after the configuration was read
  return run;
}

}  // namespace lockstep::train
