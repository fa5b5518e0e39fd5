#include <fcntl.h>
#include <lockstep/base/files.h>
#include <lockstep/base/process.h>
#include <lockstep/base/temporary_folder.h>
#include <lockstep/base/unique_fd.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/expect_error.h"
#include "base/small_disk.h"
#include "support/forks.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(AtomicFile, WritesAWholeFile) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  const std::string text("one\0two", 7);
  write_file_atomically(path, std::string_view(text));
  EXPECT_EQ(contents(path), text);
  write_file_atomically(path, std::string_view());
  EXPECT_EQ(contents(path), "");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, ReplacesWhatALinkLeadsTo) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "sub");
  fs::create_symlink("sub/two", folder.path() / "one");
  fs::create_symlink("real", folder.path() / "sub/two");
  write_file_atomically(folder.path() / "one", "first");
  EXPECT_EQ(contents(folder.path() / "sub/real"), "first") << "a link may lead to what is not there yet";
  write_file_atomically(folder.path() / "one", "second");
  EXPECT_EQ(contents(folder.path() / "sub/real"), "second");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "one"));
  EXPECT_TRUE(fs::is_symlink(folder.path() / "sub/two"));
}

TEST(AtomicFile, WritesPipesAndOpenFilesWhereTheyAre) {
  const TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(is_stream(pipe));
  expect_error(ErrorKind::io, {"cannot open", pipe.string()}, [&] { write_file_atomically(pipe, "nobody reads"); });
  const UniqueFd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  write_file_atomically(pipe, "through");
  std::string came(7, ' ');
  EXPECT_EQ(::read(reader.get(), came.data(), came.size()), 7);
  EXPECT_EQ(came, "through");
  EXPECT_TRUE(fs::is_fifo(pipe));

  const auto file = folder.path() / "file";
  const UniqueFd open(::open(file.c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(::write(open.get(), "before ", 7), 7);
  const auto name = "/dev/fd/" + std::to_string(open.get());
  EXPECT_TRUE(is_stream(name));
  write_file_atomically(name, "after");
  EXPECT_EQ(contents(file), "before after") << "as a shell's redirection of /dev/stdout";
  EXPECT_FALSE(is_stream(file));
  EXPECT_FALSE(is_stream(folder.path()));
  EXPECT_FALSE(is_stream(folder.path() / "missing"));
}

TEST(AtomicFile, ShowsNothingBeforeCommit) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  write_file_atomically(path, "old");
  AtomicFile file(path);
  file.write("ne");
  file.write(std::as_bytes(std::span("w", 1)));
  EXPECT_EQ(file.bytes_written(), 3u);
  EXPECT_EQ(contents(path), "old");
  file.commit();
  EXPECT_EQ(contents(path), "new");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder.path() / "file");
    file.write("x");
    EXPECT_EQ(files_in(folder.path()), 1u);
  }
  EXPECT_EQ(files_in(folder.path()), 0u);
}

TEST(AtomicFile, GivesTheModeOfAnOrdinaryFile) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_file_atomically(folder.path() / "file", "x");
  ::umask(before);
  EXPECT_EQ(static_cast<int>(fs::status(folder.path() / "file").permissions()), 0640);
}

TEST(AtomicFile, TakesNamesAsLongAsTheFileSystemDoes) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / std::string(255, 'n');
  write_file_atomically(path, "x");
  EXPECT_EQ(contents(path), "x");
}

TEST(AtomicFile, WritesIntoTheCurrentFolder) {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  write_file_atomically("plain", "x");
  fs::current_path(before);
  EXPECT_EQ(contents(folder.path() / "plain"), "x");
}

TEST(AtomicFile, NamesTheFolderThatIsMissing) {
  expect_error(ErrorKind::io, {"/no/such/folder/file", "No such file"},
               [] { write_file_atomically("/no/such/folder/file", "x"); });
}

TEST(AtomicFile, DoesNotReplaceAFolder) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "taken");
  expect_error(ErrorKind::io, {"cannot rename", "taken", "directory"},
               [&] { write_file_atomically(folder.path() / "taken", "x"); });
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, KeepsTheOldFileWhenTheDiskIsFull) {
  if (const auto why = test::why_no_small_disk(); !why.empty()) GTEST_SKIP() << "cannot mount a small disk: " << why;
  const TemporaryFolder folder;
  test::fork_ranks(1, {}, [&](int) {
    test::mount_small_disk(folder.path(), 64 << 10);
    const fs::path path = folder.path() / "file";
    write_file_atomically(path, "old");
    const std::string big(1 << 20, 'x');
    expect_error(ErrorKind::io, {"cannot write", path.c_str(), "of 1048576 bytes", "disk is full", "0 bytes free"},
                 [&] { write_file_atomically(path, big); });
    EXPECT_EQ(contents(path), "old");
    EXPECT_EQ(files_in(folder.path()), 1u);
    write_file_atomically(path, "new");  // the temporary is gone, so there is room again
    EXPECT_EQ(contents(path), "new");
  });
}

// A limit on the size of files stands for all errors that come in the middle of a write.
TEST(AtomicFile, KeepsTheOldFileWhenAWriteFails) {
  const TemporaryFolder folder;
  test::fork_ranks(1, {}, [&](int) {
    const fs::path path = folder.path() / "file";
    write_file_atomically(path, "old");
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    AtomicFile file(path);
    file.write(std::string(600, 'x'));
    expect_error(ErrorKind::io, {"1000 of 1200 bytes", "File too large"}, [&] { file.write(std::string(600, 'y')); });
    EXPECT_EQ(files_in(folder.path()), 1u);
    expect_error(ErrorKind::io, {path.c_str()}, [&] { file.commit(); });
    EXPECT_EQ(contents(path), "old");
  });
}

// A writer that waits, with half a file, until it is killed.
void start_a_file_and_die(const fs::path& path) {
  AtomicFile file(path);
  file.write("half");
  ::kill(::getpid(), SIGKILL);
}

TEST(AtomicFile, SurvivesAKilledWriterAndCleansUpAfterIt) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  write_file_atomically(path, "old");
  const auto outcomes = test::fork_outcomes(1, {}, [&](int) { start_a_file_and_die(path); });
  EXPECT_EQ(outcomes.front().status.signal, SIGKILL);
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(files_in(folder.path()), 2u);

  AtomicFile living(folder.path() / "other");
  living.write("new");
  EXPECT_EQ(remove_abandoned_temporaries(folder.path()), 1u);
  EXPECT_EQ(files_in(folder.path()), 2u);
  living.commit();
  EXPECT_EQ(contents(folder.path() / "other"), "new");
  EXPECT_EQ(remove_abandoned_temporaries(folder.path()), 0u);
  EXPECT_EQ(remove_abandoned_temporaries("/no/such/folder"), 0u);
}

}  // namespace
}  // namespace lockstep
