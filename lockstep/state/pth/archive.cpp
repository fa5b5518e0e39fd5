// The reader of torch.save archives, in zip form or the old one, and the detection of weight formats by first bytes.
#include <lockstep/state/pth/archive.h>
#include <lockstep/state/pth/mindspore.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace lockstep::state {
namespace {

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

}  // namespace

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
