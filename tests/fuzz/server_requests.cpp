// Whatever words a worker sends to a parameter server, reading them throws an Error or gives a request that is within
// the limits and is written as the same words.
#include <lockstep/base/error.h>
#include <lockstep/parameter_servers/wire.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::parameter_servers;
  const std::vector<TableSpec> tables{{.name = "wide", .rows = 1000, .dim = 1},
                                      {.name = "deep", .rows = 70, .dim = 67}};
  HeaderWords words{};
  if (size < sizeof words) return 0;
  std::memcpy(words.data(), data, sizeof words);
  std::vector<std::int64_t> more((size - sizeof words) / sizeof(std::int64_t));
  if (!more.empty()) std::memcpy(more.data(), data + sizeof words, more.size() * sizeof(std::int64_t));
  try {
    // The word that every request begins with, which is hard to find by chance.
    words[0] = encode(Header{})[0];
    const auto header = decode(words, tables);
    if (encode(header) != words || header.ids > kMostIds) std::abort();
    const auto pushed = decode_counts(more, header, tables);
    if (encode(pushed) != more || numbers_of(pushed, tables) > kMostNumbers) std::abort();
  } catch (const lockstep::Error&) {
  }
  try {
    require_ids(more, tables.front());
    if (more.size() > 1000) std::abort();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
