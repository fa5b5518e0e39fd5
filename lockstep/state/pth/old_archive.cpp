// A parser of the torch.save format before zip: five pickles, then storages whose sizes locate the next one.
#include <lockstep/state/pth/old_archive.h>

#include <lockstep/state/pth/state_dict.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace lockstep::state {
namespace {

using namespace std::string_view_literals;

constexpr auto kMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;  // LONG1 of 10 bytes
constexpr std::size_t kFrame = 9;                                              // opcode and length, from protocol 4 on
constexpr std::int64_t kVersion = 1001;

/// Reads one pickle after the other from the beginning of a file.
class Pickles {
 public:
  Pickles(std::string_view text, const PthError& wrong) : text_(text), wrong_(wrong) {}

  Pickle next() {
    auto read = read_first_pickle(text_.substr(at_), wrong_);
    at_ += read.bytes;
    return std::move(read.pickle);
  }

  std::size_t at() const { return at_; }

 private:
  std::string_view text_;
  const PthError& wrong_;
  std::size_t at_ = 0;
};

std::uint64_t read_number(const ByteSource& source, std::uint64_t from) {
  std::array<char, 8> bytes{};
  source.read(from, bytes);
  return std::bit_cast<std::uint64_t>(bytes);
}

std::vector<char> read_begin(const ByteSource& source) {
  constexpr std::uint64_t kOthers = 4096;  // limit of each pickle except the object and the list of keys
  std::vector<char> text(std::min(source.size, kMaxPickle + kOthers));
  source.read(0, text);
  return text;
}

}  // namespace

bool is_old_archive(std::string_view begin) {
  if (begin.size() < 2 || begin[0] != '\x80' || begin[1] < 2 || begin[1] > 5) return false;
  begin.remove_prefix(2);
  if (begin.starts_with('\x95')) begin.remove_prefix(std::min(kFrame, begin.size()));
  const auto length = std::min(begin.size(), kMagic.size());
  return length >= 5 && begin.substr(0, length) == kMagic.substr(0, length);
}

OldArchive read_old_archive(const ByteSource& source, const PthError& wrong) {
  OldArchive found;
  found.text = read_begin(source);
  Pickles pickles({found.text.data(), found.text.size()}, wrong);
  pickles.next();  // the magic number, by which the form was recognized
  const auto version = pickles.next();
  const auto* number = std::get_if<std::int64_t>(&version[version.root]);
  if (number == nullptr || *number != kVersion) {
    wrong("it is of a version of torch.save's old format that is not known; {}", kSavePlainly);
  }
  pickles.next();  // facts about the writer's machine: values are little-endian on every machine
  found.pickle = pickles.next();
  const auto list = pickles.next();
  const auto* keys = std::get_if<PickleList>(&list[list.root]);
  if (keys == nullptr) wrong("its storages are not listed: it is damaged");
  const auto element_bytes = element_bytes_of_storages(found.pickle);
  std::uint64_t at = pickles.at();
  for (const auto ref : keys->items) {
    const auto* key = std::get_if<std::string_view>(&list[ref]);
    if (key == nullptr) wrong("a storage has {} for a key, not a text", kind_of(list, ref));
    const auto bytes = element_bytes.find(*key);
    if (bytes == element_bytes.end()) {
      wrong("the storage \"{}\" is of a kind that is not known, and what is behind it cannot be found; {}",
            cut_text(*key), kSavePlainly);
    }
    if (source.size - at < sizeof(std::uint64_t)) wrong("it was cut short before the storage \"{}\"", cut_text(*key));
    const auto count = read_number(source, at);
    at += sizeof(std::uint64_t);
    if (count > (source.size - at) / bytes->second) {
      wrong("the storage \"{}\" has {} elements of {} bytes, and {} bytes follow in the file: it was cut short",
            cut_text(*key), count, bytes->second, source.size - at);
    }
    const StoredRange range{at, count * bytes->second};
    if (!found.storages.emplace(*key, range).second) wrong("the storage \"{}\" is there twice", cut_text(*key));
    at += range.bytes;
  }
  if (at != source.size) wrong("{} bytes are behind its last storage: it is damaged", source.size - at);
  return found;
}

}  // namespace lockstep::state
