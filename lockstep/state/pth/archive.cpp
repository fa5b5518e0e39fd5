// The readers of torch.save archives, in zip form or the old one, and the detection of weight formats by first bytes.
#include <lockstep/base/text.h>
#include <lockstep/state/pth/archive.h>
#include <lockstep/state/pth/mindspore.h>
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

using namespace std::string_view_literals;

static_assert(std::endian::native == std::endian::little, ".pth files hold little-endian values");

constexpr auto kPickle = "data.pkl"sv, kStorages = "data/"sv;
constexpr std::uint64_t kLongestByteOrder = 16;

/// The folder of the pickle. Error(data) if there is no pickle, or more than one.
std::string find_folder(const ZipEntries& entries, const PthError& wrong) {
  const std::string* found = nullptr;
  for (const auto& [name, entry] : entries) {
    const auto slash = name.find('/');
    if (slash == std::string::npos || std::string_view(name).substr(slash + 1) != kPickle) continue;
    if (found != nullptr) wrong("there are two pickles: \"{}\" and \"{}\"", cut_text(*found), cut_text(name));
    found = &name;
  }
  if (found == nullptr) wrong("this zip archive has no data.pkl: torch.save did not write it");
  return found->substr(0, found->size() - kPickle.size());
}

/// Field 1 with a length, and in it field 1 with one.
bool begins_as_mindspore(std::string_view begin) {
  if (!begin.starts_with('\x0a')) return false;
  std::size_t at = 1;
  while (at < begin.size() && (static_cast<unsigned char>(begin[at]) & 0x80U) != 0) ++at;
  return at + 1 < begin.size() && begin[at + 1] == '\x0a';
}

/// Whether a file that begins with these bytes has the form before zip archives; 16 are enough.
bool is_old_archive(std::string_view begin) {
  if (begin.size() < 2 || begin[0] != '\x80' || begin[1] < 2 || begin[1] > 5) return false;
  begin.remove_prefix(2);
  if (begin.starts_with('\x95')) begin.remove_prefix(std::min(kFrame, begin.size()));
  const auto length = std::min(begin.size(), kMagic.size());
  return length >= 5 && begin.substr(0, length) == kMagic.substr(0, length);
}

}  // namespace

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

WeightsFormat weights_format(std::string_view begin) {
  // A safetensors file begins with a length, which may be any bytes, followed by '{'; at that offset a zip archive has
  // the number of a compression method, and 0x7B is not one.
  if (begin.starts_with("PK\x03\x04"sv) && (begin.size() < 9 || begin[8] != '{')) return WeightsFormat::pth;
  if (is_old_archive(begin)) return WeightsFormat::old_pth;
  constexpr std::size_t kTarMagic = 257;
  if (begin.size() > kTarMagic && begin.substr(kTarMagic).starts_with("ustar"sv)) return WeightsFormat::oldest_pth;
  // (A safetensors file of this length has '{' as its ninth byte.)
  if (is_encrypted_mindspore(begin)) return WeightsFormat::mindspore;
  if (begins_as_mindspore(begin) && (begin.size() < 9 || begin[8] != '{')) return WeightsFormat::mindspore;
  return WeightsFormat::safetensors;
}

PthArchive::PthArchive(ByteSource source, const std::filesystem::path& file, const std::string& place)
    : source_(std::move(source)), wrong_(file) {
  std::string begin(std::min<std::uint64_t>(source_.size, kFormatBytes), '\0');
  source_.read(0, begin);
  if (is_old_archive(begin)) {
    read_old(place);
  } else {
    read_zip(place);
  }
}

void PthArchive::read_old(const std::string& place) {
  auto archive = read_old_archive(source_, wrong_);
  ranges_ = std::move(archive.storages);
  StorageSizes storages;
  for (const auto& [key, range] : ranges_) storages.emplace(key, range.bytes);
  state_ = read_state_dict(archive.pickle, storages, place, wrong_);
}

void PthArchive::read_zip(const std::string& place) {
  entries_ = read_zip_entries(source_, wrong_);
  folder_ = find_folder(entries_, wrong_);
  if (entries_.contains(folder_ + "constants.pkl")) {
    wrong_("this is a TorchScript archive, which torch.jit.save writes; {}", kSavePlainly);
  }
  if (entries_.contains(folder_ + "byteorder") && read_entry("byteorder", kLongestByteOrder) != "little") {
    wrong_("its values are not little-endian: another kind of machine wrote it. Save it again on a machine like this");
  }
  StorageSizes storages;
  const auto prefix = folder_ + std::string(kStorages);
  for (auto each = entries_.lower_bound(prefix); each != entries_.end() && each->first.starts_with(prefix); ++each) {
    require_stored(each->second, each->first, wrong_);
    storages.emplace(each->first.substr(prefix.size()), each->second.size);
  }
  const auto text = read_entry(std::string(kPickle), kMaxPickle);
  state_ = read_state_dict(read_pickle(text, wrong_), storages, place, wrong_);
}

std::string PthArchive::read_entry(const std::string& name, std::uint64_t most) const {
  const auto& entry = entries_.at(folder_ + name);
  if (entry.size > most) {
    wrong_("{} has {} bytes; at most {} are read. If you trust the file, {}", name, entry.size, most, kSavePlainly);
  }
  std::string bytes(entry.size, '\0');
  read_zip_entry(source_, entry, bytes, name, wrong_);
  return bytes;
}

const ZipEntry& PthArchive::storage_of(const StoredTensor& tensor) const {
  return entries_.at(folder_ + std::string(kStorages) + tensor.storage);
}

std::uint64_t PthArchive::storage_bytes(const StoredTensor& tensor) const {
  const auto range = ranges_.find(tensor.storage);
  return range == ranges_.end() ? storage_of(tensor).size : range->second.bytes;
}

void PthArchive::read_storage(const StoredTensor& tensor, std::span<char> into) const {
  if (const auto range = ranges_.find(tensor.storage); range != ranges_.end()) {
    source_.read(range->second.begin, into);
  } else {
    read_zip_entry(source_, storage_of(tensor), into, std::string(kStorages) + tensor.storage, wrong_);
  }
  const bool is_bool = tensor.dtype == "BOOL";
  if (is_bool && std::ranges::any_of(into, [](char byte) { return byte != 0 && byte != 1; })) {
    wrong_("tensor \"{}\" is BOOL and has bytes other than 0 and 1", cut_text(tensor.name));
  }
}

}  // namespace lockstep::state
