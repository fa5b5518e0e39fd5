#include <lockstep/train/pth/state_dict.h>

#include <lockstep/base/shown_text.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

namespace lockstep::train {
namespace {

constexpr std::array<std::string_view, 4> kKeys = {"state_dict", "model_state_dict", "model", "module"};
constexpr int kMostNested = 8;  // a dict may contain itself
constexpr std::size_t kMostShown = 10;

/// The value under `key`, which Python would find: the one set last.
const PickleDict* dict_under(const Pickle& pickle, const PickleDict& dict, std::string_view key) {
  const PickleDict* found = nullptr;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const auto* own = std::get_if<std::string_view>(&pickle[dict.items[i]]);
    if (own != nullptr && *own == key) found = std::get_if<PickleDict>(&pickle[dict.items[i + 1]]);
  }
  return found;
}

bool holds_tensors(const Pickle& pickle, const PickleDict& dict) {
  for (std::size_t i = 1; i < dict.items.size(); i += 2) {
    if (std::holds_alternative<PickleTensor>(pickle[dict.items[i]])) return true;
  }
  return false;
}

[[noreturn]] void no_tensors(const Pickle& pickle, const PickleDict& dict, const std::string& place,
                             const PthComplaint& wrong) {
  std::vector<std::string> keys;
  std::optional<std::string> better;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const auto* key = std::get_if<std::string_view>(&pickle[dict.items[i]]);
    if (key == nullptr) continue;
    const auto& value = pickle[dict.items[i + 1]];
    const auto* inner = std::get_if<PickleDict>(&value);
    const bool is_state_dict = inner != nullptr && holds_tensors(pickle, *inner);
    if (is_state_dict && !better) better = shown_name(*key);
    if (keys.size() < kMostShown) {
      keys.push_back(
          fmt::format("\"{}\" ({})", shown_name(*key), is_state_dict ? "a dict of tensors" : kind_of(value)));
    }
  }
  wrong("{} holds no tensors; it holds {}{}. Looked for are a state dict, or one under the keys {}; {}",
        place.empty() ? "the file" : "\"" + place + "\"",
        keys.empty() ? "nothing" : fmt::to_string(fmt::join(keys, ", ")),
        2 * keys.size() < dict.items.size() ? ", ..." : "", fmt::join(kKeys, ", "),
        better ? fmt::format("save the one that you mean alone with Python: torch.save(checkpoint[\"{}\"], "
                             "\"weights.pth\")",
                             *better)
               : std::string(kSavePlainly));
}

/// Reads the tensors of one dict, and complains about them by name.
class TensorReader {
 public:
  TensorReader(const Pickle& pickle, const StorageSizes& storages, const PthComplaint& wrong)
      : pickle_(pickle), storages_(storages), wrong_(wrong) {}

  StoredTensor read(std::string_view name, const PickleTensor& tensor) {
    name_ = name;
    const auto& arguments = std::get<PickleTuple>(pickle_[tensor.arguments]).items;
    StoredTensor found{.name = std::string(name),
                       .dtype = {},
                       .sizes = sizes(arguments[2], "sizes"),
                       .strides = sizes(arguments[3], "strides"),
                       .offset = size(arguments[1], "offset"),
                       .storage = {}};
    if (arguments.size() > 6) require_plain(arguments[6]);
    const auto elements = read_storage(expect<PickleStorage>(arguments[0], "storage"), found);
    if (found.strides.size() != found.sizes.size()) {
      wrong("has {} sizes and {} strides", found.sizes.size(), found.strides.size());
    }
    require_countable(found);
    require_within(found, elements);
    return found;
  }

 private:
  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    wrong_("tensor \"{}\" {}", shown_name(name_), fmt::format(format, std::forward<Args>(args)...));
  }

  template <typename T>
  const T& expect(PickleRef ref, std::string_view what) const {
    const auto* value = std::get_if<T>(&pickle_[ref]);
    if (value == nullptr) wrong("has a {} that is {}", what, kind_of(pickle_[ref]));
    return *value;
  }

  std::int64_t size(PickleRef ref, std::string_view what) const {
    const auto value = expect<std::int64_t>(ref, what);
    if (value < 0) wrong("has {} in its {}; only numbers from 0 are possible", value, what);
    return value;
  }

  std::vector<std::int64_t> sizes(PickleRef ref, std::string_view what) const {
    const auto& items = expect<PickleTuple>(ref, what).items;
    if (items.size() > kMaxStoredDimensions) {
      wrong("has {} dimensions; at most {} are supported", items.size(), kMaxStoredDimensions);
    }
    std::vector<std::int64_t> values;
    for (const auto item : items) values.push_back(size(item, what));
    return values;
  }

  // Metadata say that the values in the file are to be negated or conjugated first.
  void require_plain(PickleRef metadata) const {
    const auto* dict = std::get_if<PickleDict>(&pickle_[metadata]);
    const bool empty =
        dict != nullptr ? dict->items.empty() : std::holds_alternative<std::monostate>(pickle_[metadata]);
    if (!empty) wrong("is a conjugate or negative view; save it with Python as tensor.resolve_conj().resolve_neg()");
  }

  /// Sets dtype and storage; returns the number of elements.
  std::int64_t read_storage(const PickleStorage& storage, StoredTensor& tensor) {
    const auto& description = expect<PickleTuple>(storage.description, "storage").items;
    if (description.size() != 5) wrong("has a storage that is described by {} values, not 5", description.size());
    const auto& storage_class = expect<PickleStorageClass>(description[1], "class of storage");
    tensor.dtype = storage_class.dtype;
    tensor.element_bytes = storage_class.element_bytes;
    tensor.storage = expect<std::string_view>(description[2], "key of a storage");
    const auto elements = size(description[4], "storage");
    const auto found = storages_.find(tensor.storage);
    if (found == storages_.end()) {
      wrong("is in the storage \"{}\", which the file does not have", shown_name(tensor.storage));
    }
    const auto each = tensor.element_bytes;
    if (found->second % each != 0 || found->second / each != static_cast<std::uint64_t>(elements)) {
      wrong("is in a storage of {} elements of {} bytes, which has {} bytes in the file", elements, each,
            found->second);
    }
    const auto known = dtypes_.emplace(tensor.storage, tensor.dtype).first;
    if (known->second != tensor.dtype) {
      wrong("is of dtype {}, and another one in the same storage of {}", tensor.dtype, known->second);
    }
    return elements;
  }

  // A size of 0 counts as 1, because strides multiply the rest.
  void require_countable(const StoredTensor& tensor) const {
    std::uint64_t limit = std::numeric_limits<std::int64_t>::max() / tensor.element_bytes;
    for (const auto each : tensor.sizes) {
      limit /= static_cast<std::uint64_t>(std::max<std::int64_t>(each, 1));
      if (limit == 0) wrong("has more bytes than 64 bits can count");
    }
  }

  void require_within(const StoredTensor& tensor, std::int64_t elements) const {
    if (std::ranges::find(tensor.sizes, 0) != tensor.sizes.end()) return;  // nothing is read
    bool within = tensor.offset < elements;
    auto room = elements - 1 - tensor.offset;  // elements behind the first
    for (std::size_t i = 0; within && i < tensor.sizes.size(); ++i) {
      const auto steps = tensor.sizes[i] - 1;
      const auto stride = tensor.strides[i];
      within = stride == 0 || steps <= room / stride;
      if (within) room -= steps * stride;
    }
    if (!within) {
      wrong("reaches beyond its storage of {} elements: sizes [{}], strides [{}], offset {}", elements,
            fmt::join(tensor.sizes, ", "), fmt::join(tensor.strides, ", "), tensor.offset);
    }
  }

  const Pickle& pickle_;
  const StorageSizes& storages_;
  const PthComplaint& wrong_;
  std::string_view name_;
  std::map<std::string, std::string> dtypes_;  // of the storages met
};

}  // namespace

StateDict read_state_dict(const Pickle& pickle, const StorageSizes& storages, const PthComplaint& wrong) {
  const auto* dict = std::get_if<PickleDict>(&pickle[pickle.root]);
  if (dict == nullptr)
    wrong("the file holds {}, not a dict of tensors; {}", kind_of(pickle[pickle.root]), kSavePlainly);
  StateDict state;
  for (int depth = 0; depth < kMostNested; ++depth) {
    const auto* key =
        std::ranges::find_if(kKeys, [&](std::string_view each) { return dict_under(pickle, *dict, each) != nullptr; });
    if (key == kKeys.end()) break;
    dict = dict_under(pickle, *dict, *key);
    state.place += fmt::format("{}{}", state.place.empty() ? "" : ".", *key);
  }
  if (!holds_tensors(pickle, *dict)) no_tensors(pickle, *dict, state.place, wrong);

  TensorReader reader(pickle, storages, wrong);
  std::set<std::string_view> names;
  for (std::size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    const auto& key = pickle[dict->items[i]];
    const auto* name = std::get_if<std::string_view>(&key);
    const auto* tensor = std::get_if<PickleTensor>(&pickle[dict->items[i + 1]]);
    if (name == nullptr) {
      if (tensor != nullptr) wrong("a tensor has {} for a name, not a text", kind_of(key));
      continue;
    }
    if (std::ranges::any_of(*name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; })) {
      wrong("the name \"{}\" has control characters", shown_name(*name));
    }
    if (!names.insert(*name).second) wrong("the name \"{}\" is there twice", shown_name(*name));
    if (tensor != nullptr) {
      state.tensors.push_back(reader.read(*name, *tensor));
    } else {
      state.others.emplace_back(*name);
    }
  }
  return state;
}

}  // namespace lockstep::train
