// The samples that a command line gives for predictions (pictures, with the evaluation transforms of a configuration,
// and prompts, which a language model continues), and the predictions of a model as lines of JSON and as CSV.
#pragma once

#include <lockstep/samples/dataset.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::runner {

/// samples::load_picture_files() after data.eval_transforms, or else after the training transforms except random ones.
/// Errors of both.
std::shared_ptr<const samples::Dataset> given_pictures(const train::ResolvedRun& config,
                                                       const std::filesystem::path& path,
                                                       const samples::PictureFilesOptions& options);

/// The same for samples::listed_picture_files().
std::shared_ptr<const samples::Dataset> listed_pictures(const train::ResolvedRun& config,
                                                        std::vector<std::string> files, bool skips);

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
std::shared_ptr<const samples::Dataset> given_prompts(const train::ResolvedRun& config, std::vector<Prompt> prompts);

struct LineOptions {
  std::vector<std::string> classes;  ///< names of classes, by number; empty: none
  bool names_all = false;            ///< each class must have a name
  std::int64_t top = 0;              ///< the number of most probable classes to list; 0: only the most probable one
};

/// One line per sample with a JSON object: `index`; the name of the sample; `class`, `class_name`, `probability` and
/// other predicted numbers, `top`, lists of up to 16 numbers (not logits), texts; or `left_out`, the reason why the
/// sample has no predictions. Bytes that are not UTF-8 are replaced. Error(invalid_argument) for `top` without logits
/// of classes, and for more names than classes; with names_all, also for fewer.
std::string json_lines_of(const train::Prediction& all, const LineOptions& options);

/// The same as a table with a header: a list has columns NAME_1, NAME_2, ..., and the N-th of `top` has top_N,
/// top_N_name and top_N_probability. Cells with separators or line breaks are in quotes. Text is not changed.
std::string csv_of(const train::Prediction& all, const LineOptions& options);

}  // namespace lockstep::runner
