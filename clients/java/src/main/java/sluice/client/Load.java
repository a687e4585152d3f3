package sluice.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.function.BooleanSupplier;

/** The load of this process, for {@link Options#overloaded}. */
public final class Load {
  private static final long PERIOD_NANOS = 1_000_000_000; // over which the CPU is measured
  private static final double TICKS = 100; // per second, in /proc

  private final Path cgroup;
  private long time = System.nanoTime();
  private double used; // CPU, in seconds
  private double share;

  private Load(Path cgroup) {
    this.cgroup = cgroup;
    used = cpuSeconds();
  }

  /**
   * Whether this process's cgroup (v2) uses more than this part of its CPU, or of its memory. A
   * part of 1 or more is not checked. If the cgroup has no limit, the machine's CPU or memory is
   * the limit. Without cgroups, only the use of this process counts. CPU is measured over at least
   * a second.
   */
  public static BooleanSupplier above(double cpu, double memory) {
    Load load = new Load(ownCgroup());
    return () -> (cpu < 1 && load.cpu() > cpu) || (memory < 1 && load.memory() > memory);
  }

  private synchronized double cpu() {
    long elapsed = System.nanoTime() - time;
    if (elapsed >= PERIOD_NANOS) {
      double after = cpuSeconds();
      share = (after - used) / (elapsed / 1e9) / cpus();
      used = after;
      time += elapsed;
    }
    return share;
  }

  private double memory() {
    String[] most = words(cgroup.resolve("memory.max"));
    String[] now = words(cgroup.resolve("memory.current"));
    double limit =
        most.length == 0 || most[0].equals("max")
            ? kibibytes("/proc/meminfo", "MemTotal:")
            : Double.parseDouble(most[0]);
    double bytes =
        now.length == 0 ? kibibytes("/proc/self/status", "VmRSS:") : Double.parseDouble(now[0]);
    return bytes / limit;
  }

  private double cpuSeconds() {
    String[] stat = words(cgroup.resolve("cpu.stat")); // usage_usec N …
    if (stat.length > 1) {
      return Double.parseDouble(stat[1]) / 1e6;
    }
    String own = read(Paths.get("/proc/self/stat"));
    String[] fields = own.substring(own.lastIndexOf(')') + 1).trim().split("\\s+");
    return fields.length > 12
        ? (Double.parseDouble(fields[11]) + Double.parseDouble(fields[12])) / TICKS
        : 0;
  }

  private double cpus() {
    String[] most = words(cgroup.resolve("cpu.max")); // quota and period
    return most.length < 2 || most[0].equals("max")
        ? Runtime.getRuntime().availableProcessors()
        : Double.parseDouble(most[0]) / Double.parseDouble(most[1]);
  }

  private static Path ownCgroup() {
    for (String line : read(Paths.get("/proc/self/cgroup")).split("\n")) {
      if (line.startsWith("0::/")) {
        return Paths.get("/sys/fs/cgroup", line.substring(3));
      }
    }
    return Paths.get("/sys/fs/cgroup");
  }

  // The value of a line such as "VmRSS: 1024 kB", in bytes.
  private static double kibibytes(String file, String name) {
    String[] all = words(Paths.get(file));
    for (int i = 0; i + 1 < all.length; ++i) {
      if (all[i].equals(name)) {
        return 1024 * Double.parseDouble(all[i + 1]);
      }
    }
    return 0;
  }

  private static String[] words(Path file) {
    String text = read(file).trim();
    return text.isEmpty() ? new String[0] : text.split("\\s+");
  }

  private static String read(Path file) {
    try {
      return new String(Files.readAllBytes(file), java.nio.charset.StandardCharsets.UTF_8);
    } catch (IOException none) {
      return "";
    }
  }
}
