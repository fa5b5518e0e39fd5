// Samples from a command line: pictures, with the evaluation transforms of a configuration, and prompts, which a
// language model continues.
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/train/resolved_run.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// samples::load_picture_files() after data.eval_transforms, or else after the training transforms except random ones.
/// Errors of both.
std::shared_ptr<const samples::Dataset> given_pictures(const ResolvedRun& config, const std::filesystem::path& path,
                                                       const samples::PictureFilesOptions& options);

/// The same for samples::listed_picture_files().
std::shared_ptr<const samples::Dataset> listed_pictures(const ResolvedRun& config, std::vector<std::string> files,
                                                        bool skips);

struct Prompt {
  std::string shown;  ///< the prompt in messages
  std::vector<std::int64_t> tokens;
};

/// A prompt from a text: each byte is a token.
Prompt prompt_of(std::string text);

/// A prompt from a line of a file: the text, or for JSON lines the value of the key `prompt`, a text or a list of
/// tokens. Error(data) for other JSON.
Prompt prompt_in(std::string_view line, bool is_json);

/// Samples for task.name language_modelling: `tokens`, int64 [model.context], the last tokens of a longer prompt,
/// `lengths` and `numbers` (samples/text.h). Error(config) for a model that is not a language model;
/// Error(invalid_argument) for an empty prompt, and for a token outside the model's vocabulary.
std::shared_ptr<const samples::Dataset> given_prompts(const ResolvedRun& config, std::vector<Prompt> prompts);

}  // namespace lockstep::train
