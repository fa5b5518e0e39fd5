// The loader of plugins: checks of the file and its version marks, dlopen, entry function, parts with blame added.
#include <lockstep/base/config.h>
#include <lockstep/base/config_reader.h>
#include <lockstep/base/error.h>
#include <lockstep/base/files.h>
#include <lockstep/train/keys/part_kinds.h>
#include <lockstep/train/plugin.h>
#include <lockstep/train/plugins/error_origin.h>
#include <lockstep/train/plugins/load.h>
#include <lockstep/train/plugins/shared_library.h>

#include <c10/util/Type.h>
#include <fmt/format.h>

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using PluginEntry = void (*)(Parts&);

constexpr const char* kEntry = "lockstep_plugin";

template <std::size_t N>
std::string text_of(const std::array<char, N>& field) {
  return {field.data(), strnlen(field.data(), field.size())};
}

/// Versions of Lockstep with the same MAJOR.MINOR can replace each other (version.h).
bool fits(std::string_view version, std::string_view other) {
  return version.substr(0, version.rfind('.')) == other.substr(0, other.rfind('.'));
}

[[noreturn]] void refuse_without_entry() {
  fail(ErrorKind::data, "plugins",
       "does not export void lockstep_plugin(lockstep::train::Parts&), which adds its parts; <lockstep/train/plugin.h> "
       "declares it");
}

/// Error(data) unless the plugin was built with the versions that this process runs.
void require_same_versions(const detail::PluginMark& mark) {
  constexpr std::string_view kFix = "build it again with the headers of this one";
  const auto lockstep = text_of(mark.lockstep);
  const auto libtorch = text_of(mark.libtorch);
  if (!fits(lockstep, version())) {
    fail(ErrorKind::data, "plugins", "was built with Lockstep {}, and this is Lockstep {}; {}", lockstep, version(),
         kFix);
  }
  if (libtorch != TORCH_VERSION) {
    fail(ErrorKind::data, "plugins", "was built with libtorch {}, and this Lockstep with libtorch {}; {}", libtorch,
         TORCH_VERSION, kFix);
  }
}

/// A library that exports the function has its name, perhaps as the end of another one. That of the marks' section,
/// which has a dot before it, does not count.
bool has_name_of_entry(std::string_view bytes) {
  const std::string_view name(kEntry, std::strlen(kEntry) + 1);
  auto at = bytes.find(name);
  while (at != std::string_view::npos && at > 0 && bytes[at - 1] == '.') at = bytes.find(name, at + 1);
  return at != std::string_view::npos;
}

/// Checks what the bytes of the file show, as loading runs code of the library (its initializers). The marks are found
/// by the text that they begin with, zeros included.
void check_file(const fs::path& file) {
  std::error_code unknown;
  if (fs::is_directory(file, unknown)) fail(ErrorKind::io, "plugins", "is a folder");
  if (fs::exists(file, unknown) && !fs::is_regular_file(file, unknown)) {
    fail(ErrorKind::io, "plugins", "is no regular file");  // a device or a pipe may have no end
  }
  const auto bytes = read_file(file);
  if (!bytes) fail(ErrorKind::io, "plugins", "cannot be read: {}", std::generic_category().message(errno));
  require_shared_library(*bytes);
  constexpr const auto& kMagic = detail::kPluginMark.magic;
  const auto next = [&](std::size_t from) { return bytes->find(kMagic.data(), from, kMagic.size()); };
  if (next(0) == std::string::npos) {
    fail(ErrorKind::data, "plugins",
         "does not record with which Lockstep it was built: a plugin includes <lockstep/train/plugin.h>");
  }
  for (auto at = next(0); at != std::string::npos; at = next(at + 1)) {
    detail::PluginMark mark;
    if (bytes->size() - at < sizeof mark) break;
    std::memcpy(&mark, bytes->data() + at, sizeof mark);
    require_same_versions(mark);
  }
  if (!has_name_of_entry(*bytes)) refuse_without_entry();
}

/// dlerror() reads "FILE: undefined symbol: NAME", with the linker's form of the name.
std::string reason_of_loader() {
  const char* text = dlerror();
  std::string reason = text == nullptr ? "unknown reason" : text;
  constexpr std::string_view kSymbol = "undefined symbol: ";
  const auto at = reason.find(kSymbol);
  if (at == std::string::npos) return reason;
  const auto name = reason.substr(at + kSymbol.size());
  return fmt::format("it uses {}, which is in no library that it is linked with", c10::demangle(name.c_str()));
}

PluginEntry load(const fs::path& file) {
  check_file(file);
  // Symbols are resolved before anything of the library runs. It is never closed: its objects may outlive the run.
  void* library = dlopen(fs::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(ErrorKind::data, "plugins", "cannot be loaded: {}", reason_of_loader());
  auto* entry = reinterpret_cast<PluginEntry>(dlsym(library, kEntry));
  if (entry == nullptr) refuse_without_entry();
  return entry;
}

/// Adds the parts of a plugin to `parts`. `origins`: the plugin of each part, by kind and name.
void add(Parts& parts, Parts brought, const std::string& library, std::map<std::string, std::string>& origins) {
  for_each_kind([&](std::string_view kind, std::string_view section, auto member) {
    auto& list = parts.*member;
    for (auto& part : brought.*member) {
      const auto origin = origins.find(fmt::format("{} {}", kind, part.name));
      if (find_part(list, part.name) != nullptr) {
        fail(ErrorKind::data, "plugins", "adds '{}' to {}, which {} has already; give it another name", part.name, kind,
             origin == origins.end() ? "Lockstep or this program" : origin->second);
      }
      if (part.name.empty()) fail(ErrorKind::data, "plugins", "adds a part without a name to {}", kind);
      origins.emplace(fmt::format("{} {}", kind, part.name), library);
      part.options = part.options.visited_by([who = fmt::format("{}, {} {}", library, section, part.name)](
                                                 const std::function<void()>& visit) { call_from(who, visit); });
      list.push_back(part_with_error_origin(std::move(part), library));
    }
  });
}

struct OnlyPlugins {
  std::vector<std::string> plugins;
};

void describe(ConfigFields& fields, OnlyPlugins& c) { fields.field("plugins", c.plugins, anything(), "libraries"); }

using PluginNames = std::vector<std::pair<std::string, FilePosition>>;

/// The names under the key `plugins`, with their places.
PluginNames plugin_names(const ConfigSource& source) {
  const auto* node = source.root.find("plugins");
  if (node == nullptr) return {};
  ConfigNode section = make_section(source.root.position);
  section.entries.push_back({"plugins", *node});
  const auto names = read_config<OnlyPlugins>(section, "").plugins;
  PluginNames result;
  for (std::size_t i = 0; i < names.size(); ++i) result.emplace_back(names[i], node->items.at(i).position);
  return result;
}

/// An absolute path of the file `name` if it is in `folder`, or else in the current folder, so that the config.yaml of
/// a run can be read from any folder. Other names stay as they are.
std::string placed(const std::string& name, const fs::path& folder = ".") {
  if (name.empty() || name.starts_with('~')) return name;
  std::error_code unknown;
  for (const auto& file : {folder / name, fs::path(name)}) {
    if (fs::exists(file, unknown)) return fs::absolute(file, unknown).lexically_normal().string();
  }
  return name;
}

std::shared_ptr<const Parts> with_named(std::shared_ptr<const Parts> given, const PluginNames& names) {
  if (names.empty()) return given;
  auto parts = std::make_shared<Parts>(given ? *given : *shared_shipped_parts());
  std::map<std::string, std::string> origins;
  std::set<fs::path> files;
  for (const auto& [name, position] : names) {
    if (std::ranges::find(parts->built_in, fs::path(name).filename().string()) != parts->built_in.end()) continue;
    try {
      if (name.empty()) fail(ErrorKind::data, "plugins", "has an empty name; give the path of a shared library");
      const auto file = with_home(name);
      const auto entry = load(file);
      if (!files.insert(fs::canonical(file)).second)
        fail(ErrorKind::data, "plugins", "is named twice; remove one of them");
      Parts brought;
      call_from("lockstep_plugin", [&] { entry(brought); });
      add(*parts, brought, fs::path(name).filename().string(), origins);
      require_makers(brought);
    } catch (const Error& error) {
      const auto from = error.where() == "plugins" ? "" : fmt::format("{}: ", error.where());
      throw Error(ErrorKind::config, "plugins", fmt::format("{} {}{}", name, from, error.message()), position);
    } catch (const std::exception& error) {
      throw Error(ErrorKind::config, "plugins", fmt::format("{}: {}", name, error.what()), position);
    }
  }
  return parts;
}

}  // namespace

std::shared_ptr<const Parts> with_plugins(std::shared_ptr<const Parts> given, ConfigSource& source) {
  for (auto& [key, value] : source.root.entries) {
    if (key != "plugins") continue;
    for (auto& item : value.items) {
      const bool is_of_file = item.position.line > 0;
      item.scalar = placed(item.scalar, is_of_file ? fs::path(item.position.file).parent_path() : ".");
    }
  }
  return with_named(std::move(given), plugin_names(source));
}

std::shared_ptr<const Parts> with_plugins(std::shared_ptr<const Parts> parts, std::vector<std::string>& plugins) {
  PluginNames names;
  for (auto& plugin : plugins) {
    plugin = placed(plugin);
    names.emplace_back(plugin, FilePosition());
  }
  return with_named(std::move(parts), names);
}

}  // namespace lockstep::train
