// A search in error texts for words that are keys of the file, which gives the error a file and line.
#include <lockstep/train/keys/key_places.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {
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

}  // namespace lockstep::train
