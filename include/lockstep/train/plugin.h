// The entry of a plugin: a shared library that adds parts to `lockstep train` and to programs with further parts.
//
//   #include <lockstep/lockstep.h>
//   void lockstep_plugin(lockstep::train::Parts& parts) {
//     parts.models.push_back({.name = "net", ...});
//   }
//
// A configuration names the library: `plugins: [build/libmine.so]` (docs/own_model.md#plugins).
#pragma once

#include <lockstep/train/parts.h>
#include <lockstep/version.h>

#include <torch/version.h>

#include <array>
#include <cstddef>
#include <string_view>

/// Defined by the plugin, which adds its parts to `parts`, an empty value. Called on the main thread of each process,
/// before the rest of the configuration is read. An exception ends the run with the plugin's name and the reason. The
/// library stays loaded until the process ends.
extern "C" [[gnu::visibility("default")]] void lockstep_plugin(lockstep::train::Parts& parts);

namespace lockstep::train::detail {

/// The versions that a source was compiled with, as texts that end in zeros. They are read from the file of a plugin
/// before any of its code runs, so this layout never changes.
struct PluginMark {
  std::array<char, 24> magic{};
  std::array<char, 32> lockstep{};
  std::array<char, 32> libtorch{};
};

inline constexpr std::string_view kPluginMagic = "lockstep plugin 1";

constexpr PluginMark make_plugin_mark() {
  PluginMark mark;
  const auto put = [](auto& field, std::string_view text) {
    for (std::size_t i = 0; i < text.size() && i + 1 < field.size(); ++i) field[i] = text[i];
  };
  put(mark.magic, kPluginMagic);
  put(mark.lockstep, kHeaderVersion);
  put(mark.libtorch, TORCH_VERSION);
  return mark;
}

/// A copy for each source that includes this header, in a separate section.
[[gnu::section(".lockstep_plugin"), gnu::used]] static constexpr PluginMark kPluginMark = make_plugin_mark();

}  // namespace lockstep::train::detail
