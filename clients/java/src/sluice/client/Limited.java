package sluice.client;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Limits a method by the rules of a domain. A denied call throws {@link LimitedException}. It takes
 * effect through {@link LimitedProxy} or, with Spring, {@code sluice.spring.LimitedAdvisor}.
 */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
public @interface Limited {
  String domain();

  /** Such as {@code "endpoint=/pay"} and {@code "user={0}"}, the method's first argument. */
  String[] attributes();
}
