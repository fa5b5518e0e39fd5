// The replacement of foreign keys in the YAML tree, before the sections are read.
#include <lockstep/base/error.h>
#include <lockstep/train/configuration/read_config.h>
#include <lockstep/train/keys/foreign_tables.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

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

}  // namespace lockstep::train
