# Runs fio with every way that Linux has to read and write a file. Each run verifies its data by
# checksum, at once and again after the file system was mounted anew. Sourced by `beside-suites.sh`.

# Bytes of each file.
FIO_SIZE=${SUITES_FIO_SIZE:-8m}

# fio_job TARGET ENGINE DIRECT PATTERN [OPTION...]: TARGET is a `--directory` or a
# `--filename`.
fio_job() {
  local target=$1 engine=$2 direct=$3 pattern=$4 depth=1
  shift 4
  case $engine in
    libaio | io_uring | posixaio) depth=16 ;;
  esac
  timeout 300 fio --name="$engine-$direct-$pattern" "$target" --size="$FIO_SIZE" --bs=4k \
    --ioengine="$engine" --direct="$direct" --rw="$pattern" --iodepth="$depth" \
    --verify=crc32c --verify_fatal=1 --verify_dump=0 --fsync=64 --end_fsync=1 --invalidate=1 \
    --fallocate=none --randseed=7 --aux-path="$work" --minimal "$@" >"$work/fio.out" 2>&1
}

# Each engine, buffered and direct, in sequence and at random. A mapped file is not
# opened directly by fio, and `splice` reads around pages only through a pipe.
fio_kinds() {
  for engine in sync psync vsync pvsync pvsync2 libaio io_uring posixaio mmap splice; do
    for direct in 0 1; do
      [ "$engine$direct" != mmap1 ] || continue
      for pattern in write randwrite; do
        echo "$engine $direct $pattern"
      done
    done
  done
}

judge_mount_with_fio() {
  need fio
  local count=0
  new_drive f 2GiB
  mounted f
  while read -r engine direct pattern; do
    fio_job "--directory=$work/f" "$engine" "$direct" "$pattern" </dev/null ||
      stop "fio $engine direct=$direct $pattern: $(tail -3 "$work/fio.out")"
    count=$((count + 1))
  done < <(fio_kinds)
  unmounted f
  mounted f
  while read -r engine direct pattern; do
    fio_job "--directory=$work/f" "$engine" "$direct" "$pattern" --verify_only=1 </dev/null ||
      stop "fio $engine direct=$direct $pattern, mounted anew: $(tail -3 "$work/fio.out")"
  done < <(fio_kinds)
  # One wrong byte must be detected; otherwise the other results mean nothing.
  printf '\377\001' | dd of="$work/f/psync-0-randwrite.0.0" bs=1 seek=70000 conv=notrunc status=none
  if fio_job "--directory=$work/f" psync 0 randwrite --verify_only=1; then
    stop "fio did not see a wrong byte"
  fi
  unmounted f
  sound f
  echo "fio on the mount: $count kinds right, also after a remount"
}

judge_drive_with_fio() {
  need fio losetup
  local loop count=0
  "$flashloom" drive create "$work/r.flash" --size 256MiB >/dev/null
  mkdir -p "$work/r"
  timeout 60 "$flashloom" serve "$work/r.flash" --file "$work/r" --background
  while read -r engine direct pattern; do
    fio_job "--filename=$work/r/drive" "$engine" "$direct" "$pattern" </dev/null ||
      stop "fio on the drive, $engine direct=$direct $pattern: $(tail -3 "$work/fio.out")"
    count=$((count + 1))
  done < <(fio_kinds)
  echo "fio on the served drive: $count kinds right"
  loop=$(losetup --direct-io=on -b 4096 --show -f "$work/r/drive")
  loops="$loops $loop"
  count=0
  while read -r engine direct pattern; do
    # fio 3.33 reads zeros from a mapped loop device, also over a plain file.
    [ "$engine" != mmap ] || continue
    for trim in "" "--trim_percentage=20 --trim_verify_zero=1 --trim_backlog=32"; do
      # Trimming goes past the engine; with some of them fio 3.33 frees a trim twice.
      [ "$engine" = psync ] || [ -z "$trim" ] || continue
      # shellcheck disable=SC2086
      fio_job "--filename=$loop" "$engine" "$direct" "$pattern" $trim </dev/null ||
        stop "fio on a loop device, $engine direct=$direct $pattern $trim: $(tail -3 "$work/fio.out")"
      count=$((count + 1))
    done
  done < <(fio_kinds)
  fio_job "--filename=$loop" libaio 1 randwrite ||
    stop "fio on a loop device, before it is discarded: $(tail -3 "$work/fio.out")"
  blkdiscard "$loop"
  cmp -s -n 268435456 "$loop" /dev/zero || stop "a discarded drive does not read as zeros"
  losetup -d "$loop"
  umount "$work/r"
  while pgrep -f "serve $work/r.flash " >/dev/null; do sleep 0.2; done
  echo "fio on a loop device over it: $count kinds right"
}
