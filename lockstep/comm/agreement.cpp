// The comparison of calls by fingerprints of fixed length, a hash (FNV-1a) and a text, exchanged over the backend.
#include <lockstep/comm/agreement.h>

#include <lockstep/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace lockstep::detail {
namespace {

constexpr std::size_t kHashDigits = 16;

// FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv): the same on every rank, unlike std::hash.
std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string readable(const std::string& fingerprint) {
  auto text = fingerprint.substr(kHashDigits);
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

}  // namespace

std::string fingerprint(const std::string& signature, std::uint64_t trace) {
  // The hash comes first because the message may be too short for the whole signature.
  auto message = fmt::format("{:016x}{}", fnv1a(signature) ^ trace, signature);
  message.resize(kFingerprintBytes, '\0');
  return message;
}

std::string refusal(const std::string& signature, const std::string& problem) {
  return fmt::format("{} (refused there: {})", signature, problem);
}

std::optional<std::string> disagreement(const std::vector<std::string>& fingerprints) {
  std::vector<std::pair<std::string, std::vector<int>>> kinds;  // in the order of their first ranks
  for (std::size_t rank = 0; rank < fingerprints.size(); ++rank) {
    const auto same = [&](const auto& kind) { return kind.first == fingerprints[rank]; };
    auto found = std::find_if(kinds.begin(), kinds.end(), same);
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {fingerprints[rank], {}});
    found->second.push_back(static_cast<int>(rank));
  }
  if (kinds.size() < 2) return std::nullopt;
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : kinds) {
    parts.push_back(fmt::format("rank{} {}: {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "), readable(text)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

void agree(GroupImpl& group, const Call& call, const std::string& signature,
           const std::optional<std::string>& problem) {
  std::optional<std::string> difference;
  if (group.members().size() > 1) {
    const auto start = std::chrono::steady_clock::now();
    try {
      auto text = problem ? refusal(signature, *problem) : signature;
      if (call.trace != 0) text += fmt::format(" in global operator {}", call.step);
      const auto all = group.backend().exchange(fingerprint(text, call.trace), call);
      group.job()->note_waited(start);
      difference = disagreement(all);
    } catch (...) {
      group.rethrow(call, std::current_exception(),
                    std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start));
    }
  }
  if (problem) throw Error(ErrorKind::invalid_argument, call.op, *problem);
  if (!difference) return;
  throw Error(
      ErrorKind::mismatch, call.op,
      fmt::format("the ranks of group \"{}\" do not make the same call number {}{}. {}. All of them must call the "
                  "same collectives in the same order, with equal shapes and dtypes{}",
                  group.members().name, call.sequence, group.here(call), *difference, group.compare_traces(call)));
}

}  // namespace lockstep::detail
