package sluice.client;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import sluice.v1.Mode;

/**
 * Limits each call of a method: a denied one throws {@link LimitedException}. Takes effect through
 * {@link LimitedProxy} or, with Spring, {@code sluice.spring.LimitedAdvisor}.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
public @interface Limited {
  String domain();

  /**
   * Such as {@code "endpoint=/pay"} and {@code "user={user}"}, the argument of that name (for which the
   * class is compiled with {@code -parameters}), or {@code "user={0}"}, the first one.
   */
  String[] attributes();

  /** Units to take. */
  long cost() default 1;

  Mode mode() default Mode.MODE_CONSUME;
}
